"""The types that keys of a scenario have: how each is read and written back, and what the JSON schema says of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, PlainValidator
from pydantic_core import CoreSchema, core_schema

from device_agent.confine.settings import FILES, LEAST_FILES, LEAST_PROCESSES, PROCESSES, Wanted
from testbed.scenario import churn, readers
from testbed.scenario.backends import BUILT_IN
from testbed.scenario.expect import EXAMPLE, Expectation
from testbed.scenario.readers import (
    DEVICE_FILES,
    GENERATED,
    LARGEST_SEED,
    MOST,
    MOST_LOSS,
    MOST_SIMULATED,
    NAME,
    PHONES,
    SESSION_FILES,
    SOURCES,
    VERSION,
    Reader,
)
from testbed.world.arrays import Matching
from testbed.world.jobs import PAPER, Which
from testbed.world.timeline import Entry
from venn.wire.notation import Constant, Distribution, format_bytes, format_duration, format_fraction, format_rate


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of value, for ``Annotated``. ``name`` is what the reference calls it, ``json`` its type in the schema."""

    read: Reader
    name: str
    json: str | list[str] = "string"
    examples: tuple[object, ...] = ()
    write: Callable[[Any], object] | None = None  # as a scenario file has it; None: as it is
    more: dict[str, object] = field(default_factory=dict)  # of the schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        schema: Any = PlainValidator(self.read).__get_pydantic_core_schema__(source, handler)
        if self.write is not None:
            schema["serialization"] = core_schema.plain_serializer_function_ser_schema(self.write)
        return schema

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: object) -> dict[str, object]:
        examples = {"examples": list(self.examples)} if self.examples else {}
        return {"type": self.json, "x-kind": self.name, **examples, **self.more}


def _as_number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _as_distribution(value: Distribution) -> str | int | float:
    bare = isinstance(value, Constant) and value.unit == "number"
    return _as_number(value.mean) if bare else str(value)


def _count(least: int, example: int, most: int = MOST, **more: object) -> Kind:
    return Kind(readers.whole(least, most), "whole number", "integer", (example,), more={"minimum": least, **more})


def _part(most: Fraction, example: str, *, above: bool = False) -> Kind:
    def read(value: object) -> Fraction:
        return readers.as_fraction(value, most, above=above)

    return Kind(read, "fraction", ["string", "number"], (example,), format_fraction)


def _choice(options: tuple[str, ...], name: str = "", made: Callable[[str], str] = str, **more: object) -> Kind:
    def read(value: object) -> str:
        return made(readers.one_of(value, options))

    return Kind(read, name or " or ".join(options), write=str, more={"enum": list(options), **more})


_DRAWN = ["string", "number"]
_BACKENDS = f"{', '.join(BUILT_IN[:-1])} or {BUILT_IN[-1]}"

Name = Annotated[str, Kind(readers.as_name, "name", more={"pattern": f"^{NAME.pattern}$"})]
Text = Annotated[str, Kind(readers.as_text, "text")]
Truth = Annotated[bool, Kind(readers.as_truth, "true or false", "boolean")]
Seed = Annotated[int, _count(0, 7, LARGEST_SEED)]
Count = Annotated[int, _count(1, 20)]
Limit = Annotated[int, _count(0, 1)]
Devices = Annotated[int, _count(1, 140_000, MOST_SIMULATED, maximum=MOST_SIMULATED)]
Factor = Annotated[float, Kind(readers.as_positive, "number", "number", (0.1,), _as_number, {"exclusiveMinimum": 0})]
Cores = Annotated[
    float, Kind(readers.as_positive, "number above 0", "number", (0.4,), _as_number, {"exclusiveMinimum": 0})
]
Swing = Annotated[float, Kind(readers.as_swing, "number, 1 or more", "number", (3,), _as_number, {"minimum": 1})]
Spread = Annotated[float, Kind(readers.as_spread, "number", "number", (0.2,), _as_number, {"minimum": 0})]
Duration = Annotated[float, Kind(readers.as_duration, "duration", "string", ("5s",), format_duration)]
LongDuration = Annotated[float, Kind(readers.above_zero, "duration above 0", "string", ("15s",), format_duration)]
Portion = Annotated[Fraction, _part(Fraction(1), "80%", above=True)]
MinorPart = Annotated[Fraction, _part(Fraction(9, 10), "20%", above=True)]
Chance = Annotated[Fraction, _part(Fraction(1), "30%")]
Surplus = Annotated[Fraction, _part(Fraction(10), "20%")]
Loss = Annotated[Fraction, _part(MOST_LOSS, "1%")]
Lasting = Annotated[
    Distribution,
    Kind(
        *(readers.distribution_of("duration"), "distribution of durations", "string"),
        *(("exp(8s)", "lognormal(8s; 1.0)", "5s..20s"), _as_distribution),
    ),
]
Score = Annotated[
    Distribution,
    Kind(readers.distribution_of("number"), "distribution of numbers", _DRAWN, ("1..4", 8), _as_distribution),
]
Size = Annotated[
    Distribution,
    Kind(readers.distribution_of("bytes"), "distribution of sizes", "string", ("2 GB", "2 GB..8 GB"), _as_distribution),
]
SizeLimit = Annotated[int, Kind(readers.as_limit, "size", "string", ("512 MB",), format_bytes)]
Bytes = Annotated[int, Kind(readers.as_bytes, "size", "string", ("5 MB",), format_bytes)]
Rate = Annotated[float, Kind(readers.as_rate, "rate", "string", ("4 Mbit/s",), format_rate)]
ProfileName = Annotated[str, Kind(readers.as_profile, "profile", "string", ("pi-4", "mine.yaml"))]
RequirementText = Annotated[
    str, Kind(readers.as_requirement, "requirement", "string", ("all", "memory >= 4 GB and cpu >= 7"))
]
Capability = Annotated[str, Kind(readers.as_capability, "capability", "string", ("inference",))]
LabelName = Annotated[str, Kind(readers.as_label, "label")]
LabelValues = Annotated[
    tuple[str, ...],
    Kind(
        *(readers.as_labels, "text, or a list of texts", ["string", "array"], ("lab",)),
        lambda values: values[0] if len(values) == 1 else list(values),
    ),
]
ParameterName = Annotated[str, Kind(readers.as_parameter_name, "parameter")]
Parameter = Annotated[
    bool | int | float | str,
    Kind(readers.as_parameter, "true, false, a number or a text", ["boolean", "number", "string"], (40,)),
]
StragglerRule = Annotated[Literal["finish", "revoke"], _choice(("finish", "revoke"))]
ConfineLevel = Annotated[Wanted, _choice(tuple(Wanted), made=Wanted)]
Files = Annotated[int, _count(LEAST_FILES, FILES)]
Processes = Annotated[int, _count(LEAST_PROCESSES, PROCESSES)]
Repeat = Annotated[Literal["once", "allow"], _choice(("once", "allow"))]
Rows = Annotated[Which, _choice(tuple(Which), ", ".join(Which), Which)]
Match = Annotated[Matching, _choice(tuple(Matching), made=Matching)]
Backend = Annotated[str, Kind(readers.as_backend, _BACKENDS, more={"enum": [*BUILT_IN]})]
Version = Annotated[Literal[1], Kind(readers.as_version, "1", "integer", more={"const": VERSION})]
JobTable = Annotated[str, Kind(readers.file_or((".csv",), PAPER), "table of jobs", "string", ("paper", "jobs.csv"))]
JobFile = Annotated[Path, Kind(readers.as_file, "path of a Python file", "string", ("digits.py",), str)]
TraceFile = Annotated[Path, Kind(readers.as_file, "path of a CSV file", "string", ("sessions.csv",), str)]
Policy = Annotated[str, Kind(readers.as_policy, "policy", "string", ("venn", "mine.py:Mine"))]
Source = Annotated[str, Kind(readers.file_or((".npz",), *SOURCES), "data set", "string", SOURCES)]
Split = Annotated[str, Kind(readers.as_split, "split", "string", ("dirichlet(3.0)",))]
Expected = Annotated[Expectation, Kind(readers.as_expectation, "expectation", "string", (EXAMPLE,), str)]
DevicesSource = Annotated[
    str, Kind(readers.generated_or(PHONES, DEVICE_FILES), "phones, or a file", "string", ("phones.csv",))
]
SessionsSource = Annotated[
    str, Kind(readers.generated_or(GENERATED, SESSION_FILES), "generated, or a file", "string", ("sessions.csv",))
]
ChurnEntry = Annotated[Entry, Kind(churn.as_entry, "timeline entry", "object", (churn.EXAMPLE,), Entry.to_json)]
