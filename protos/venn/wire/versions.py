"""Versions of the protocol: its number, and the numbers that this software understands."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import grpc

from venn.v1.common_pb2 import Version
from venn.wire.status import abort

OLDEST = 1
PROTOCOL = 1


def _software() -> str:
    try:
        return version("venn-testbed")
    except PackageNotFoundError:  # run from a folder that is not installed
        return "unknown"


SOFTWARE = _software()


def this_version() -> Version:
    return Version(protocol=PROTOCOL, software=SOFTWARE)


def describe(spoken: Version) -> str:
    return f"protocol {spoken.protocol} (venn-testbed {spoken.software or 'unknown'})"


def understands(spoken: Version) -> bool:
    return OLDEST <= spoken.protocol <= PROTOCOL


async def check_version(context: grpc.aio.ServicerContext[Any, Any], spoken: Version) -> None:
    """End the call with FAILED_PRECONDITION/VERSION, both versions named, if they do not understand each other."""
    if not understands(spoken):
        await abort(
            context,
            grpc.StatusCode.FAILED_PRECONDITION,
            "VERSION",
            f"the caller speaks {describe(spoken)}, this side {describe(this_version())}",
            caller=describe(spoken),
            server=describe(this_version()),
        )
