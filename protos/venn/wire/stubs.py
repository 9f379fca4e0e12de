"""The generated stubs over an asyncio channel, with the types that they have there.

The generator types the methods of both kinds of channel in separate classes, of which only one exists at run time.
"""

from typing import TYPE_CHECKING, cast

import grpc

from venn.v1.admin_pb2_grpc import AdminServiceStub
from venn.v1.device_pb2_grpc import DeviceServiceStub
from venn.v1.job_pb2_grpc import JobServiceStub
from venn.v1.task_pb2_grpc import TaskServiceStub

if TYPE_CHECKING:
    from venn.v1.admin_pb2_grpc import AdminServiceAsyncStub
    from venn.v1.device_pb2_grpc import DeviceServiceAsyncStub
    from venn.v1.job_pb2_grpc import JobServiceAsyncStub
    from venn.v1.task_pb2_grpc import TaskServiceAsyncStub


def admin_stub(channel: grpc.aio.Channel) -> "AdminServiceAsyncStub":
    return cast("AdminServiceAsyncStub", AdminServiceStub(channel))


def device_stub(channel: grpc.aio.Channel) -> "DeviceServiceAsyncStub":
    return cast("DeviceServiceAsyncStub", DeviceServiceStub(channel))


def job_stub(channel: grpc.aio.Channel) -> "JobServiceAsyncStub":
    return cast("JobServiceAsyncStub", JobServiceStub(channel))


def task_stub(channel: grpc.aio.Channel) -> "TaskServiceAsyncStub":
    return cast("TaskServiceAsyncStub", TaskServiceStub(channel))
