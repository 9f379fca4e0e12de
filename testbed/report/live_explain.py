"""Asks a running coordinator why a job or a device waits."""

import grpc

from testbed.report.explain import Explanation, Line
from testbed.report.view import admin_of
from venn.v1 import admin_pb2
from venn.wire.channel import open_channel
from venn.wire.errors import UsageError
from venn.wire.status import peer_error

TIMEOUT_S = 10


async def ask(address: str, token: str, subject: str) -> Explanation:
    """Raises UsageError if it knows no such job or device, PeerError if it is not there or refuses."""
    async with open_channel(address, token=token) as channel:
        try:
            answer = await admin_of(channel).Explain(admin_pb2.ExplainRequest(subject=subject), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            failure = peer_error(error, where=f"coordinator {address}")
            if failure.reason == "UNKNOWN_SUBJECT":  # the caller's mistake, not the coordinator's
                raise UsageError(failure.reason, failure.message, where=failure.where, fix=failure.fix) from None
            raise failure from None
    story = tuple(Line(entry.at.ToTimedelta().total_seconds(), entry.kind, entry.text) for entry in answer.story)
    return Explanation(answer.subject, answer.state, tuple(answer.reasons), story)
