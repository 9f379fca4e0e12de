"""The scenario format for programs (JSON schema) and for people (the reference in docs/scenario.md), from the model."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from testbed.scenario.loader import INHERITANCE
from testbed.scenario.model import Confine, Data, Fleet, Job, Scenario, Workload
from testbed.scenario.population import DrawnJobs, Population
from testbed.world.data import DIGITS
from venn.wire.notation import Exponential

BEGIN = "<!-- made by `venn scenario schema --markdown`: change testbed/scenario/model.py, not this -->"

_INHERITED = {
    "every_job": ("Job", "Default values for every job: any key of a job."),
    "every_device": ("Fleet", "Default values for every fleet: any key of a fleet."),
}
# The least of each kind: what is not said here shows its default.
_LEAST: dict[str, BaseModel] = {
    "Scenario": Scenario(version=1, name="least", jobs={}, fleets={}),
    "Data": Data(source=DIGITS),
    "Job": Job(demand=1, deadline=1.0),
    "Workload": Workload(),
    "DrawnJobs": DrawnJobs(count=1, arrives=Exponential(1800.0, "duration")),
    "Fleet": Fleet(count=1),
    "Population": Population(),
    "Confine": Confine(),
}
# Where each kind of mapping stands in the file, in the order of the reference.
_SECTIONS = {
    "Scenario": ("At the top", "The keys of the file itself."),
    "Data": ("data", "`data.NAME`: a data set."),
    "Job": ("jobs, every_job", "`jobs.NAME`: a job. Every job inherits `every_job`."),
    "Workload": ("workload", "`jobs.NAME.workload`: the cost of a task."),
    "DrawnJobs": ("drawn_jobs", "Jobs that are drawn at random. The same seed draws the same jobs."),
    "Fleet": (
        "fleets, every_device",
        "`fleets.NAME`: devices of one kind. Every fleet inherits `every_device`.",
    ),
    "Population": ("population", "`population`: the devices of a simulation."),
    "Confine": ("confine", "`confine`: what job code may use on a device."),
}


def json_schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of a scenario file, ``every_job`` and ``every_device`` included."""
    schema = _model_schema()
    definitions = schema["$defs"]
    for source, _ in INHERITANCE:
        name, description = _INHERITED[source]
        heir = definitions[name]
        # What is inherited need not stand in the heir, where null takes it away.
        heir.pop("required")
        definitions[f"Every{name}"] = {**heir, "title": f"Every{name}", "description": description}
        schema["properties"][source] = {"$ref": f"#/$defs/Every{name}", "description": description}
        heir["properties"] = {key: _or_null(described) for key, described in heir["properties"].items()}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """The schema as a file, as ``scenario.schema.json`` holds it; without the newline at its end."""
    return json.dumps(json_schema(), indent=2)


def markdown() -> str:
    """The reference: a table for each kind of mapping."""
    schema = _model_schema()
    parts = {"Scenario": schema, **schema["$defs"]}
    lines = [BEGIN, ""]
    for name, (title, text) in _SECTIONS.items():
        lines += [f"### {title}", "", text, "", "| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        lines += _rows(name, parts[name])
        lines.append("")
    return "\n".join(lines)


def _model_schema() -> dict[str, Any]:
    """Pydantic's schema, with defaults in the notation of the file."""
    schema = Scenario.model_json_schema()
    for name, example in _LEAST.items():
        part = schema if name == "Scenario" else schema["$defs"][name]
        dumped = example.model_dump()
        for key, described in part["properties"].items():
            described.pop("default", None)
            if key not in part.get("required", ()) and dumped[key] is not None:
                described["default"] = dumped[key]
    return schema


def _rows(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    shared = {heirs: source for source, heirs in INHERITANCE} if name == "Scenario" else {}
    for key, described in part["properties"].items():
        default = "needed" if key in part.get("required", ()) else _default(described.get("default"))
        yield f"| `{key}` | {_kind(described)} | {default} | {_words(described)} |"
        if key in shared:
            yield f"| `{shared[key]}` | mapping | - | {_INHERITED[shared[key]][1]} |"


def _kind(described: Mapping[str, Any]) -> str:
    match described:
        case {"x-kind": kind}:
            return str(kind)
        case {"anyOf": [inner, {"type": "null"}]}:
            return _kind(inner)
        case {"items": inner}:
            kind = _kind(inner)
            return f"list of {kind[:-1]}ies" if kind.endswith("y") else f"list of {kind}s"
        case {"additionalProperties": {"$ref": _}}:
            return "mapping of names to mappings"
        case {"additionalProperties": {"x-kind": kind}}:
            return f"mapping of names to: {kind}"
        case _:
            return "mapping"


def _default(value: object) -> str:
    match value:
        case None | [] | ():
            return "-"
        case bool():
            return f"`{str(value).lower()}`"
        case dict() if not value:
            return "-"
        case dict():
            return "`{" + ", ".join(f"{key}: {inner}" for key, inner in value.items()) + "}`"
        case _:
            return f"`{value}`"


def _words(described: Mapping[str, Any]) -> str:
    return " ".join(str(described.get("description", "")).split()).replace("|", "\\|")


def _or_null(described: Mapping[str, Any]) -> dict[str, Any]:
    if described.get("anyOf", [{}])[-1] == {"type": "null"}:
        return dict(described)
    outer = {key: described[key] for key in ("description", "default") if key in described}
    inner = {key: value for key, value in described.items() if key not in outer}
    return {"anyOf": [inner, {"type": "null"}], **outer}
