"""The wire keeps buf's STANDARD rules, every field says its unit, and the stubs are what the .proto files say."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor

from venn.v1 import admin_pb2, auth_pb2, common_pb2, device_pb2, job_pb2, task_pb2

FILES: list[FileDescriptor] = [m.DESCRIPTOR for m in (admin_pb2, auth_pb2, common_pb2, device_pb2, job_pb2, task_pb2)]
PROTOS = Path(__file__).parents[3] / "protos"
GENERATOR = "1.70.0"


def messages(found: list[Descriptor]) -> Iterator[Descriptor]:
    for message in found:
        if not message.GetOptions().map_entry:
            yield message
            yield from messages(list(message.nested_types))


ALL_MESSAGES = [m for file in FILES for m in messages(list(file.message_types_by_name.values()))]
ALL_ENUMS: list[EnumDescriptor] = [
    *(e for file in FILES for e in file.enum_types_by_name.values()),
    *(e for message in ALL_MESSAGES for e in message.enum_types),
]
ALL_SERVICES = [s for file in FILES for s in file.services_by_name.values()]


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name)


def test_all_files_are_looked_at() -> None:
    assert {Path(file.name).name for file in FILES} == {path.name for path in (PROTOS / "venn/v1").glob("*.proto")}
    assert {file.package for file in FILES} == {"venn.v1"}


def test_services_and_their_calls() -> None:
    used: list[str] = []
    for service in ALL_SERVICES:
        assert service.name.endswith("Service")
        for method in service.methods:
            assert method.input_type.name == f"{method.name}Request"
            assert method.output_type.name == f"{method.name}Response"
            used += [method.input_type.name, method.output_type.name]
    assert len(used) == len(set(used))
    assert {service.name for service in ALL_SERVICES} == {
        "DeviceService",
        "JobService",
        "TaskService",
        "AdminService",
        "AuthService",
        "IdentityService",
    }


def test_enums_begin_unspecified_and_carry_their_prefix() -> None:
    for enum in ALL_ENUMS:
        prefix = snake(enum.name).upper()
        assert enum.values_by_number[0].name == f"{prefix}_UNSPECIFIED"
        assert all(value.name.startswith(f"{prefix}_") for value in enum.values)
        assert len({value.number for value in enum.values}) == len(enum.values)


def test_names_of_messages_and_fields() -> None:
    for message in ALL_MESSAGES:
        assert re.fullmatch(r"([A-Z][a-z0-9]*)+", message.name)
        for field in message.fields:
            assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", field.name), f"{message.name}.{field.name}"


def test_durations_are_durations_and_other_numbers_name_their_unit() -> None:
    bare = re.compile(r"(timeout|duration|interval|delay|period)(_s|_ms|_seconds)?$")
    for message in ALL_MESSAGES:
        for field in message.fields:
            if field.message_type is None and field.name != "interval":  # CheckIn.interval is a count
                assert not bare.search(field.name), f"{message.name}.{field.name} is a number and should be a Duration"


@pytest.mark.parametrize("path", sorted((PROTOS / "venn/v1").glob("*.proto")), ids=lambda path: path.name)
def test_every_definition_says_what_it_is(path: Path) -> None:
    lines = path.read_text().splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        if re.match(r"\s*(message|enum|service|rpc) ", line):
            assert above.strip().startswith("//"), f"{path.name}: {line.strip()} needs a comment above"


def test_stubs_are_what_the_proto_files_say() -> None:
    try:
        installed = version("grpcio-tools")
    except PackageNotFoundError:
        installed = "none"
    if installed != GENERATOR:
        pytest.skip(f"needs grpcio-tools {GENERATOR} (extra protos), installed is {installed}")
    check = subprocess.run(
        [sys.executable, PROTOS / "generate.py", "--check"], check=False, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stderr
