"""``venn agent doctor``: whether this machine can be a device of that coordinator; a line per check."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from device_agent import flags
from device_agent.actions import TaskFailed
from device_agent.confine.inforce import InForce
from device_agent.confine.settings import Confinement
from device_agent.flags import secrets_in
from device_agent.machine import importable_packages, measured_numbers, parse_allowed
from device_agent.pipes import SYNTHETIC
from device_agent.worker_process import Work
from device_agent.workers import WorkerPool
from venn.v1.device_pb2 import CheckIn, ConnectRequest
from venn.wire import logs, tensors
from venn.wire.admission import describe, this_version
from venn.wire.calls import device_stub
from venn.wire.chunks import digest_of
from venn.wire.command import Context, application, client_command, run_async
from venn.wire.errors import ExitCode, PeerError, VennError
from venn.wire.exits import write_line
from venn.wire.login import log_in
from venn.wire.notation import format_bytes
from venn.wire.status import peer_error, reason_of

ANSWER_S = 5.0
WELL_FORMED_BUT_NAMELESS = "MALFORMED"  # how a coordinator answers a check-in that could be one but for its name

app = application()


@dataclass(frozen=True, slots=True)
class Check:
    """One check, and what it found."""

    name: str
    passed: bool
    says: str  # what was found; else what is wrong, and how to fix it


@app.command(epilog="Example: venn agent doctor --coordinator 192.168.1.5:9700 --insecure --data digits=share-03.npz")
@client_command
def doctor(
    context: Context,
    *,
    keys: flags.Keys = None,
    data: flags.Data = None,
    allow_code: flags.AllowCode = None,
    trust_owner: flags.TrustOwner = None,
) -> int:
    """Check before joining: one line per check, PASSED or how to fix it."""
    logs.configure(component="doctor", verbose=context.verbose, quiet=context.quiet)
    found: list[Check] = []
    held: list[InForce] = []

    async def run() -> int:
        found.append(await _check("machine", _machine))
        found.append(await _check("worker", lambda: _worker(keys, held.append)))
        found.append(await _check("confined", lambda: _confined(held)))
        found.append(await _check("data", lambda: _data(data)))
        found.append(await _check("code", lambda: _code(allow_code, trust_owner, context)))
        found.append(await _check("coordinator", lambda: _coordinator(context, keys)))
        return ExitCode.OK if all(check.passed for check in found) else ExitCode.FAILED

    code = run_async(run())
    if context.json:
        checks = [{"name": check.name, "passed": check.passed, "says": check.says} for check in found]
        write_line(sys.stdout, json.dumps({"passed": code == ExitCode.OK, "checks": checks}))
    else:
        for check in found:
            write_line(sys.stdout, f"{'PASSED' if check.passed else 'FAILED'}  {check.name:<12} {check.says}")
    return code


async def _check(name: str, run: Callable[[], Awaitable[str]]) -> Check:
    try:
        return Check(name, True, await run())
    except VennError as error:
        return Check(name, False, str(error))


async def _machine() -> str:
    numbers = measured_numbers()
    level = f", os {numbers['os']:g}" if "os" in numbers else ""
    packages = len(importable_packages())
    return f"cpu {numbers['cpu']:g}, memory {format_bytes(numbers['memory'])}{level}, {packages} Python packages"


async def _worker(keys: Path | None, told: Callable[[InForce], None]) -> str:
    """Check the process that runs job code. ``told`` gets what holds it."""
    try:
        held, seconds = await try_worker(secrets_in(keys))
    except (TaskFailed, OSError) as error:
        raise PeerError("WORKER", str(error), fix="check that numpy loads in this Python") from error
    told(held)
    return f"runs tasks; started in {seconds:.1f} s"


async def try_worker(secrets: tuple[Path, ...]) -> tuple[InForce, float]:
    """Start a worker, give it a task that does nothing, and end it; return what held it, and the seconds that it took.

    Raises OSError or TaskFailed.
    """
    held: list[InForce] = []
    pool = WorkerPool(1, confinement=Confinement(secrets=secrets), told=held.append)
    model = tensors.encode({})
    now = asyncio.get_running_loop().time()
    work = Work(
        code=None,
        code_digest=b"",
        model=model,
        model_digest=digest_of(model),
        params={"kind": SYNTHETIC},
        data="",
        device="doctor",
        round=1,
        attempt=1,
        seed=0,
        ends_at=now + 60.0,
        progress=lambda fraction: None,
    )
    try:
        await pool.warm()
        await pool.run(work)
    finally:
        await pool.close()
    return held[-1], asyncio.get_running_loop().time() - now


async def _confined(held: list[InForce]) -> str:
    """Check what holds job code, as the worker's kernel says."""
    if not held:
        raise PeerError("CONFINED", "no worker has started", fix="see above")
    if not held[-1].holds and sys.platform == "linux":  # elsewhere nobody can do more
        fix = "Linux 5.13 with Landlock, or user namespaces, or run it as root; see docs/security.md"
        raise PeerError("CONFINED", f"job code can read this agent's key, or outlive it: held by {held[-1]}", fix=fix)
    return f"by {held[-1]}"


async def _data(values: list[str] | None) -> str:
    data = flags.parse_data(values)
    return ", ".join(data) if data else "none; this device gets no jobs that need data (--data NAME=PATH)"


async def _code(values: list[str] | None, owners: list[str] | None, context: Context) -> str:
    insecure = context.insecure
    allowed = parse_allowed(values or (), owners or (), coordinator=context.coordinator, insecure=insecure)
    if allowed.everything:
        return "any job's code may run"
    if not allowed.digests and not allowed.owners:
        return "no job's code may run yet (--allow-code FILE)"
    signed = f", and what {counted} sign" if (counted := len(allowed.owners)) else ""
    return f"{len(allowed.digests)} job files may run{signed}"


async def _coordinator(context: Context, keys: Path | None) -> str:
    """Check in without a name: the key is judged first, then the version, then the name; so it has no effect."""
    address = context.coordinator
    where = f"coordinator at {address}"
    channel = log_in("device", address, keys, insecure=context.insecure).channel()
    try:
        call = device_stub(channel).Connect(timeout=ANSWER_S)
        await call.write(ConnectRequest(seq=1, check_in=CheckIn(instance=bytes(16), version=this_version())))
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        if reason_of(error) != WELL_FORMED_BUT_NAMELESS:
            raise peer_error(error, where=where) from error
    except asyncio.InvalidStateError:
        raise PeerError("UNREACHABLE", "it ended the stream at once", where=where) from None
    finally:
        await channel.close()
    return f"{address} answers, takes the key and speaks {describe(this_version())}"
