"""The signature of a job's code by its owner, kept in the job's folder.

Signatures of the same bytes differ, and an attempt stays the same only with the same task: so a driver that comes back
goes on with the signature of the one before it.
"""

import json
from pathlib import Path

from venn.v1.common_pb2 import Artifact, JobKey, Task
from venn.wire.files import write_atomic
from venn.wire.keys import id_of
from venn.wire.login import Login
from venn.wire.signed_code import code_owner, code_statement

FILE = "code.signature"


def signed_code(login: Login, job: JobKey, digest: bytes, folder: Path) -> tuple[bytes, bytes]:
    """The owner's public key (DER), and the signature of the code with this digest. Raises PeerError OUT_OF_SPACE."""
    file = folder / FILE
    key, signature = login.sign(code_statement(login.authority, job, digest))
    try:
        kept = {name: bytes.fromhex(text) for name, text in json.loads(file.read_text()).items()}
        before = Task(code=Artifact(digest=digest), owner_key=kept["key"], code_signature=kept["signature"])
        if code_owner(login.authority, job, before) == id_of(key):
            return before.owner_key, before.code_signature
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # there is none, or not of this
    write_atomic(file, json.dumps({"key": key.hex(), "signature": signature.hex()}) + "\n")
    return key, signature
