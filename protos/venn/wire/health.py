"""The health service (grpc.health.v1) of every server.

gRPC's own holds a lock while it writes to a watcher. So one that does not read kept a server from saying that it stops,
and from stopping.
"""

import asyncio
from collections.abc import Collection
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthServicer, add_HealthServicer_to_server

from venn.wire.bounds import Refusals, ServerBounds, host_of
from venn.wire.status import abort

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
Context = grpc.aio.ServicerContext[Any, Any]
Status = health_pb2.HealthCheckResponse


class Health(HealthServicer):
    """One status for all services of a server, which ``serving`` sets."""

    def __init__(self, services: Collection[str], bounds: ServerBounds, refusals: Refusals) -> None:
        self._services, self._bounds, self._refusals = {"", *services}, bounds, refusals
        self._serves = False
        self._changed = asyncio.Event()
        self._watches = 0

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server. It needs ``OpenCalls`` there, for it is open to anybody."""
        add_HealthServicer_to_server(self, server)

    def serving(self, serves: bool) -> None:
        """Say from now on that all services serve, or that none does."""
        self._serves = serves
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Context) -> Status:
        if request.service not in self._services:
            await abort(context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_SERVICE", "this service is not served here")
        return self._status()

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        if self._watches >= self._bounds.watches:
            why = f"{self._watches} watch already"
            self._refusals.met("watches", host_of(context.peer()), why)
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHES", why)
        self._watches += 1
        try:
            while True:
                changed, known = self._changed, request.service in self._services
                await context.write(self._status() if known else Status(status=Status.SERVICE_UNKNOWN))
                await changed.wait()
        finally:
            self._watches -= 1

    def _status(self) -> Status:
        return Status(status=Status.SERVING if self._serves else Status.NOT_SERVING)
