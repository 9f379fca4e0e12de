"""The end of a call with a status, also where its caller has left."""

import asyncio
from typing import Any, cast

import grpc
import pytest

from venn.wire.status import abort


class Context:
    """The context of a call whose abort raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def abort(self, code: grpc.StatusCode, message: str, metadata: object) -> None:
        raise self._error


async def test_a_call_ends_with_its_status() -> None:
    context = cast(Any, Context(grpc.aio.AbortError("as gRPC does")))
    with pytest.raises(grpc.aio.AbortError):
        await abort(context, grpc.StatusCode.NOT_FOUND, "NOWHERE", "there is nothing")


async def test_a_call_whose_caller_has_left_ends_as_cancelled_and_not_as_a_bug() -> None:
    context = cast(Any, Context(grpc.aio.InternalError("execute_batch")))
    with pytest.raises(asyncio.CancelledError):
        await abort(context, grpc.StatusCode.NOT_FOUND, "NOWHERE", "there is nothing")
