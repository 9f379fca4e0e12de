"""From a file to a scenario: read, override, resolve, validate, check; every problem told with its line."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from testbed.scenario.checks import check
from testbed.scenario.document import Document, Value, parse_document, read_document
from testbed.scenario.drawn_jobs import DrawnJobs
from testbed.scenario.errors import Finding, Problem, ScenarioError
from testbed.scenario.inherit import INHERITANCE, resolve
from testbed.scenario.later import LATER
from testbed.scenario.model import Data, Fleet, Job, Scenario, Workload
from testbed.scenario.overrides import override
from testbed.scenario.places import KeyPath, Places
from testbed.scenario.population import Population
from testbed.scenario.profiled import fill, give_containers
from testbed.scenario.wording import known, shown

# The kinds of mappings with fixed keys, by their pattern; None stands for a name that the user chose.
KINDS: dict[tuple[str | None, ...], tuple[str, type[BaseModel]]] = {
    (): ("scenario", Scenario),
    ("jobs", None): ("job", Job),
    ("jobs", None, "workload"): ("workload", Workload),
    ("fleets", None): ("fleet", Fleet),
    ("data", None): ("data", Data),
    ("drawn_jobs",): ("drawn jobs", DrawnJobs),
    ("population",): ("population", Population),
}
HOMES = {
    "scenario": "at the top of the file",
    "job": "in a job or every_job",
    "fleet": "in a fleet or every_device",
    "workload": "in a job's workload",
    "data": "in an entry of data",
    "drawn jobs": "in drawn_jobs",
    "population": "in population",
}

# What to write where a key is missing.
_EXAMPLES = {
    "version": "version: 1",
    "name": "name: my-scenario",
    "demand": "demand: 20",
    "deadline": "deadline: 15s",
    "count": "count: 20",
    "arrives": "arrives: exp(30m)",
    "source": "source: sklearn-digits",
}


_SHARED = {(source,) for source, _ in INHERITANCE}


def load(path: Path, overrides: Sequence[str] = ()) -> Scenario:
    """Raises ScenarioError with every problem that was found."""
    return _scenario(read_document(path), path.absolute().parent, overrides)


def parse(text: str, *, source: str = "scenario.yaml", folder: Path | None = None) -> Scenario:
    """The scenario of a text; relative paths in it start at ``folder``, by default the current one.

    Raises ScenarioError with every problem that was found.
    """
    return _scenario(parse_document(text, source), (folder or Path()).absolute(), ())


def _scenario(document: Document, folder: Path, overrides: Sequence[str]) -> Scenario:
    if not isinstance(document.root, dict):
        message = f"{shown(document.root)} where the keys of a scenario should be"
        raise ScenarioError([Problem(str(document.places.find(())), message, "write key: value lines")])
    document = resolve(override(document, overrides))
    give_containers(document)
    findings = [*_without_value(document.root, ()), *fill(document, folder)]
    try:
        scenario = Scenario.model_validate(document.root, context={"folder": folder})
    except ValidationError as error:
        findings += [_finding(each) for each in error.errors(include_url=False)]
    else:
        findings += check(scenario)
    if findings:
        raise ScenarioError(_problems(findings, document.places))
    return scenario


def _problems(findings: Sequence[Finding], places: Places) -> list[Problem]:
    """In the order of the file; what many inherit is told once."""
    told = sorted(((places.find(each.path), each) for each in findings), key=lambda pair: pair[0].line)
    return list(dict.fromkeys(Problem(str(place), each.message, each.fix) for place, each in told))


def _without_value(value: Value, path: KeyPath) -> Iterator[Finding]:
    if value is None:
        yield Finding(path, "has no value", "write one, or take the key out")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _without_value(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _without_value(inner, (*path, index))


def _finding(error: ErrorDetails) -> Finding:
    """What pydantic found, in words for people."""
    path: KeyPath = tuple(step for step in error["loc"] if step != "[key]")
    match error["type"]:
        case "scenario":
            context = error["ctx"]
            return Finding(path, context["message"], context["fix"])
        case "extra_forbidden" if path not in _SHARED:
            return _unknown_key(path)
        case "missing":
            return _missing_key(path)
        case "extra_forbidden" | "model_type" | "model_attributes_type" | "mapping_type" | "dict_type":
            return Finding(path, f"{shown(error['input'])} where keys should be", "write key: value pairs below it")
        case "sequence_str" | "is_instance_of" | "list_type" | "tuple_type":
            return Finding(path, f"{shown(error['input'])} where a list should be", "write - and an entry on each line")
        case _:
            return Finding(path, error["msg"])


def _kind(path: KeyPath) -> tuple[str, type[BaseModel]]:
    for pattern, kind in KINDS.items():
        if len(pattern) == len(path) and all(want in (None, step) for want, step in zip(pattern, path, strict=True)):
            return kind
    raise AssertionError(f"no mapping with fixed keys at {path}")


def _keys_of(kind: str, model: type[BaseModel]) -> list[str]:
    """The keys that a mapping of this kind may have."""
    own = list(model.model_fields)
    return own + [source for source, _ in INHERITANCE] if kind == "scenario" else own


def _unknown_key(path: KeyPath) -> Finding:
    key = str(path[-1])
    name, model = _kind(path[:-1])
    if key in LATER.get(name, {}):
        return Finding(path, "has no effect yet", f"take it out: {LATER[name][key]}")
    for other, other_model in KINDS.values():
        if other != name and key in _keys_of(other, other_model):
            return Finding(path, "unknown key here", f"it belongs {HOMES[other]}")
    return Finding(path, "unknown key", known(key, _keys_of(name, model)))


def _missing_key(path: KeyPath) -> Finding:
    return Finding(path, "is missing", f"add e.g. {_EXAMPLES[str(path[-1])]}")
