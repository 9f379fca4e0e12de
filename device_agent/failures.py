"""The ways in which a task ends without a response."""

from venn.v1 import common_pb2


class TaskFailed(Exception):
    """A task failed. The coordinator is told where, why, and the last lines of the task's output."""

    def __init__(
        self,
        phase: common_pb2.Phase.ValueType,
        reason: common_pb2.FailureReason.ValueType,
        message: str,
        output_tail: str = "",
    ) -> None:
        super().__init__(message)
        self.phase, self.reason, self.message, self.output_tail = phase, reason, message, output_tail


class LeaseOver(Exception):
    """The lease's time is over. The coordinator knows that as well, so it is told nothing."""

    def __init__(self, phase: common_pb2.Phase.ValueType) -> None:
        super().__init__(f"in {common_pb2.Phase.Name(phase)}")
        self.phase = phase
