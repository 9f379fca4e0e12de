"""The types that keys of a scenario have: read by ``readers``, written back in the notation.

In the JSON schema ``x-kind`` names the kind of value for the reference.
"""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from testbed.scenario.backends import BUILT_IN
from testbed.scenario.churn import EXAMPLE as EXAMPLE_ENTRY
from testbed.scenario.churn import as_entry
from testbed.scenario.expect import EXAMPLE, Expectation
from testbed.scenario.readers import (
    DEVICE_FILES,
    GENERATED,
    LARGEST_SEED,
    MOST,
    MOST_SIMULATED,
    NAME,
    PHONES,
    SESSION_FILES,
    SOURCES,
    VERSION,
    as_backend,
    as_bytes,
    as_capability,
    as_distribution,
    as_duration,
    as_expectation,
    as_file,
    as_fraction,
    as_generated,
    as_label,
    as_labels,
    as_name,
    as_parameter,
    as_parameter_name,
    as_policy,
    as_positive_number,
    as_profile,
    as_rate,
    as_requirement,
    as_size,
    as_source,
    as_split,
    as_spread,
    as_swing,
    as_table,
    as_text,
    as_truth,
    as_version,
    as_whole,
    one_of,
)
from testbed.world.arrays import Matching
from testbed.world.jobs import Which
from testbed.world.timeline import Entry
from venn.wire.notation import Constant, Distribution, Unit, format_bytes, format_duration, format_fraction, format_rate


def _schema(kind: str, json_type: str | list[str], *examples: object, **more: object) -> WithJsonSchema:
    return WithJsonSchema({"type": json_type, "x-kind": kind, "examples": list(examples), **more})


def _whole(least: int, most: int = MOST) -> PlainValidator:
    return PlainValidator(lambda value: as_whole(value, least, most))


def _fraction(least: int, most: Fraction | None, *, open_below: bool) -> PlainValidator:
    return PlainValidator(lambda value: as_fraction(value, Fraction(least), most, open_below=open_below))


def _duration(*, positive: bool) -> PlainValidator:
    def read(value: object, info: ValidationInfo) -> float:
        return as_duration(value, info, positive=positive)

    return PlainValidator(read)


def _generated(word: str, suffixes: tuple[str, ...]) -> PlainValidator:
    def read(value: object, info: ValidationInfo) -> str:
        return as_generated(value, info, word, suffixes)

    return PlainValidator(read)


def _drawn(unit: Unit) -> PlainValidator:
    def read(value: object, info: ValidationInfo) -> Distribution:
        return as_distribution(value, info, unit)

    return PlainValidator(read)


def _number_out(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _distribution_out(value: Distribution) -> str | int | float:
    bare = isinstance(value, Constant) and value.unit == "number"
    return _number_out(value.mean) if bare else str(value)


_DURATION_OUT = PlainSerializer(format_duration, return_type=str)
_FRACTION_OUT = PlainSerializer(format_fraction, return_type=str)
_DRAWN_OUT = PlainSerializer(_distribution_out)
_DRAWN = ["string", "number"]

Name = Annotated[str, PlainValidator(as_name), _schema("name", "string", pattern=f"^{NAME.pattern}$")]
Text = Annotated[str, PlainValidator(as_text), _schema("text", "string")]
Truth = Annotated[bool, PlainValidator(as_truth), _schema("true or false", "boolean")]
Seed = Annotated[int, _whole(0, LARGEST_SEED), _schema("whole number", "integer", 7, minimum=0)]
Count = Annotated[int, _whole(1), _schema("whole number", "integer", 20, minimum=1)]
Limit = Annotated[int, _whole(0), _schema("whole number", "integer", 1, minimum=0)]
Factor = Annotated[
    float,
    PlainValidator(as_positive_number),
    PlainSerializer(_number_out),
    _schema("number", "number", 0.1, exclusiveMinimum=0),
]

Duration = Annotated[
    float,
    _duration(positive=False),
    _DURATION_OUT,
    _schema("duration", "string", "5s"),
]
LongDuration = Annotated[
    float,
    _duration(positive=True),
    _DURATION_OUT,
    _schema("duration above 0", "string", "15s"),
]

Portion = Annotated[  # of a whole: above 0, at most all of it
    Fraction,
    _fraction(0, Fraction(1), open_below=True),
    _FRACTION_OUT,
    _schema("fraction", ["string", "number"], "80%"),
]
MinorPart = Annotated[
    Fraction,
    _fraction(0, Fraction(9, 10), open_below=True),
    _FRACTION_OUT,
    _schema("fraction", ["string", "number"], "20%"),
]
Chance = Annotated[
    Fraction,
    _fraction(0, Fraction(1), open_below=False),
    _FRACTION_OUT,
    _schema("fraction", ["string", "number"], "30%"),
]
Surplus = Annotated[
    Fraction,
    _fraction(0, Fraction(10), open_below=False),
    _FRACTION_OUT,
    _schema("fraction", ["string", "number"], "20%"),
]

Lasting = Annotated[
    Distribution,
    _drawn("duration"),
    _DRAWN_OUT,
    _schema("distribution of durations", "string", "exp(8s)", "lognormal(8s; 1.0)", "5s..20s"),
]
Score = Annotated[Distribution, _drawn("number"), _DRAWN_OUT, _schema("distribution of numbers", _DRAWN, "1..4", 8)]
Size = Annotated[
    Distribution,
    _drawn("bytes"),
    _DRAWN_OUT,
    _schema("distribution of sizes", "string", "2 GB", "2 GB..8 GB"),
]

Cores = Annotated[
    float,
    PlainValidator(as_positive_number),
    PlainSerializer(_number_out),
    _schema("number above 0", "number", 0.4, exclusiveMinimum=0),
]
SizeLimit = Annotated[
    int, PlainValidator(as_size), PlainSerializer(format_bytes, return_type=str), _schema("size", "string", "512 MB")
]
Bytes = Annotated[
    int,
    PlainValidator(as_bytes),
    PlainSerializer(format_bytes, return_type=str),
    _schema("size", "string", "5 MB"),
]
Rate = Annotated[
    float, PlainValidator(as_rate), PlainSerializer(format_rate, return_type=str), _schema("rate", "string", "4 Mbit/s")
]
Loss = Annotated[
    Fraction,
    _fraction(0, Fraction(99, 100), open_below=False),
    _FRACTION_OUT,
    _schema("fraction", ["string", "number"], "1%"),
]
ProfileName = Annotated[str, PlainValidator(as_profile), _schema("profile", "string", "pi-4", "mine.yaml")]
RequirementText = Annotated[
    str, PlainValidator(as_requirement), _schema("requirement", "string", "all", "memory >= 4 GB and cpu >= 7")
]
LabelName = Annotated[str, PlainValidator(as_label), _schema("label", "string")]
LabelValues = Annotated[
    tuple[str, ...],
    PlainValidator(as_labels),
    PlainSerializer(lambda values: values[0] if len(values) == 1 else list(values)),
    _schema("text, or a list of texts", ["string", "array"], "lab"),
]
ParameterName = Annotated[str, PlainValidator(as_parameter_name), _schema("parameter", "string")]
Parameter = Annotated[
    bool | int | float | str,
    PlainValidator(as_parameter),
    _schema("true, false, a number or a text", ["boolean", "number", "string"], 40),
]
StragglerRule = Annotated[
    Literal["finish", "revoke"],
    PlainValidator(lambda value: one_of(value, ("finish", "revoke"))),
    WithJsonSchema({"type": "string", "enum": ["finish", "revoke"], "x-kind": "finish or revoke"}),
]
Repeat = Annotated[
    Literal["once", "allow"],
    PlainValidator(lambda value: one_of(value, ("once", "allow"))),
    WithJsonSchema({"type": "string", "enum": ["once", "allow"], "x-kind": "once or allow"}),
]
Rows = Annotated[
    Which,
    PlainValidator(lambda value: Which(one_of(value, tuple(Which)))),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "enum": list(Which), "x-kind": ", ".join(Which)}),
]
JobTable = Annotated[str, PlainValidator(as_table), _schema("table of jobs", "string", "paper", "jobs.csv")]
JobFile = Annotated[
    Path,
    PlainValidator(as_file),
    PlainSerializer(str, return_type=str),
    _schema("path of a Python file", "string", "digits.py"),
]
TraceFile = Annotated[
    Path,
    PlainValidator(as_file),
    PlainSerializer(str, return_type=str),
    _schema("path of a CSV file", "string", "sessions.csv"),
]
Policy = Annotated[str, PlainValidator(as_policy), _schema("policy", "string", "venn", "mine.py:Mine")]
Source = Annotated[str, PlainValidator(as_source), _schema("data set", "string", *SOURCES)]
Split = Annotated[str, PlainValidator(as_split), _schema("split", "string", "dirichlet(3.0)")]
Expected = Annotated[
    Expectation,
    PlainValidator(as_expectation),
    PlainSerializer(str, return_type=str),
    _schema("expectation", "string", EXAMPLE),
]
ChurnEntry = Annotated[
    Entry,
    PlainValidator(as_entry),
    PlainSerializer(Entry.to_json, return_type=dict[str, str]),
    _schema("timeline entry", "object", EXAMPLE_ENTRY),
]
Version = Annotated[
    Literal[1], PlainValidator(as_version), WithJsonSchema({"type": "integer", "const": VERSION, "x-kind": "1"})
]
Backend = Annotated[
    str,
    PlainValidator(as_backend),
    WithJsonSchema({"type": "string", "enum": [*BUILT_IN], "x-kind": f"{', '.join(BUILT_IN[:-1])} or {BUILT_IN[-1]}"}),
]

Devices = Annotated[
    int, _whole(1, MOST_SIMULATED), _schema("whole number", "integer", 140_000, minimum=1, maximum=MOST_SIMULATED)
]
Swing = Annotated[
    float,
    PlainValidator(as_swing),
    PlainSerializer(_number_out),
    _schema("number, 1 or more", "number", 3, minimum=1),
]
Capability = Annotated[str, PlainValidator(as_capability), _schema("capability", "string", "inference")]
DevicesSource = Annotated[str, _generated(PHONES, DEVICE_FILES), _schema("phones, or a file", "string", "phones.csv")]
SessionsSource = Annotated[
    str, _generated(GENERATED, SESSION_FILES), _schema("generated, or a file", "string", "sessions.csv")
]
Match = Annotated[
    Matching,
    PlainValidator(lambda value: Matching(one_of(value, tuple(Matching)))),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "enum": list(Matching), "x-kind": " or ".join(Matching)}),
]
Spread = Annotated[
    float,
    PlainValidator(as_spread),
    PlainSerializer(_number_out),
    _schema("number", "number", 0.2, minimum=0),
]
