"""Signed code: the owner of a job says, by a signature, that this code is of this job at this coordinator.

The coordinator hands the signature on and need not be believed. So a device can be told whose code to run.
"""

from venn.v1.common_pb2 import JobKey, Task
from venn.wire.keys import exact, id_of, verifies

LABEL = b"venn-code-v1"
MOST_KEY, MOST_SIGNATURE = 256, 128  # bytes; a P-256 key and a signature have about 91 and 72


def code_statement(authority: bytes, job: JobKey, digest: bytes) -> bytes:
    """The bytes that an owner signs. ``authority``: as in ``login.proof``; ``digest``: of the code."""
    return exact(LABEL, authority, job.owner.encode(), job.name.encode(), job.run.encode(), digest)


def code_owner(authority: bytes, job: JobKey, task: Task) -> bytes | None:
    """The id of the key that has signed the code of a task of this job; None: none has."""
    key, signature = task.owner_key, task.code_signature
    if not (0 < len(key) <= MOST_KEY and 0 < len(signature) <= MOST_SIGNATURE):
        return None
    if not verifies(key, signature, code_statement(authority, job, task.code.digest)):
        return None
    return id_of(key)
