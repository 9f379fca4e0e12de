"""Ids of devices, jobs, leases and the like. The engine numbers in ascending order, but for sessions: its host does."""

from typing import NewType

DeviceId = NewType("DeviceId", str)  # the device's own, lasting identity
JobId = NewType("JobId", str)  # owner/name/run
GroupId = NewType("GroupId", str)  # the canonical text of a requirement
SessionSeq = NewType("SessionSeq", int)  # one stream of one device; ascending, never reused in an incarnation
RequestId = NewType("RequestId", int)  # one attempt at one round of one job
LeaseSeq = NewType("LeaseSeq", int)  # one device granted to one request; starts at 1
RegionId = NewType("RegionId", int)  # index of an interned region


def job_name(job: JobId) -> str:
    """The name in a job's key, owner/name/run; anything else is its own name."""
    parts = job.split("/")
    return parts[1] if len(parts) == 3 else job
