"""``venn job``: run a job, try it out, look at jobs, end them."""

import getpass
import json
import logging
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import grpc
import typer

from job_driver.bounds import DriverBounds
from job_driver.bundle import JobFile, load
from job_driver.checkpoint import run_in
from job_driver.driver import JobResult, run_job
from job_driver.job import Round
from job_driver.metrics import tellable
from job_driver.server import key_text
from job_driver.settings import ParamValue, Settings
from job_driver.supervised import supervise_this
from venn.v1 import admin_pb2, common_pb2, job_pb2
from venn.wire import logs
from venn.wire.bounds import set_bounds
from venn.wire.calls import admin_stub, enum_name, job_stub
from venn.wire.command import Context, GivenBounds, application, client_command, command, execute, run_async
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.keys import Role, key_file
from venn.wire.login import log_in_now
from venn.wire.notation import parse_duration, parse_fraction
from venn.wire.places import keys_folder
from venn.wire.process import reuse_freed_memory
from venn.wire.requirements import parse_requirement
from venn.wire.status import peer_error
from venn.wire.text import did_you_mean, printable

CALL_S = 10.0
PAGE = 500  # jobs that are asked for at once
OVER = (job_pb2.JOB_PHASE_FINISHED, job_pb2.JOB_PHASE_CANCELLED, job_pb2.JOB_PHASE_FAILED)

logger = logging.getLogger(__name__)
app = application("One job and its driver.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Job file: it ends with job = Job(...).")]
Params = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="Parameter of the task; repeatable. A value in double quotes is text."),
]
HeldOut = Annotated[Path | None, typer.Option(metavar="FILE", help="Held-out data that evaluate reads.")]
Keys = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the coordinator's keys.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="Job's name, or owner/name/run.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the job's random draws.")]


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn job")


@app.command(epilog="Example: venn job run digits.py --demand 20 --rounds 18 --data digits --param epochs=40")
@client_command
def run(
    context: Context,
    file: File,
    name: Annotated[str, typer.Option(help="Job's name; default: the file's.")] = "",
    owner: Annotated[str, typer.Option(help="Job's owner; default: the user.")] = "",
    run: Annotated[str, typer.Option("--run", help="Name of this run of the job; default: a new one.")] = "",
    requirement: Annotated[str, typer.Option(help="Which devices may serve it, e.g. 'memory >= 4 GB'.")] = "all",
    requirement_name: Annotated[str, typer.Option(help="Display name of the requirement.")] = "",
    demand: Annotated[int, typer.Option(min=1, help="How many devices a round asks for.")] = 10,
    buffer: Annotated[int | None, typer.Option(min=1, help="Asynchronous: number of responses in a round.")] = None,
    max_staleness: Annotated[int | None, typer.Option(min=0, help="Oldest response that counts, in rounds.")] = None,
    over_commit: Annotated[str, typer.Option(metavar="FRACTION", help="Part of the demand leased in addition.")] = "0%",
    min_response: Annotated[
        str, typer.Option(metavar="FRACTION", help="Part of the demand that closes a round.")
    ] = "80%",
    deadline: Annotated[str, typer.Option(metavar="T", help="How long an attempt may take, from its opening.")] = "60s",
    lease: Annotated[
        str | None, typer.Option(metavar="T", help="Longest time of a task; default: the deadline.")
    ] = None,
    stragglers: Annotated[
        Literal["finish", "revoke"], typer.Option(help="Rule for tasks when a round closes.")
    ] = "finish",
    repeat: Annotated[Literal["once", "allow"], typer.Option(help="How often a device counts in a round.")] = "once",
    rounds: Annotated[int | None, typer.Option(min=1, help="Exact number of rounds; or give --max-rounds.")] = None,
    max_rounds: Annotated[int | None, typer.Option(min=1, help="Most rounds; stop may end it earlier.")] = None,
    compute: Annotated[str, typer.Option(metavar="T", help="Modelled time of a task at cpu 1.")] = "0s",
    param: Params = None,
    data: Annotated[str, typer.Option(metavar="NAME", help="Local data of the devices that a task reads.")] = "",
    held_out: HeldOut = None,
    seed: Seed = 0,
    dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of checkpoints, spool and logs.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in --dir.")] = False,
    supervised: Annotated[bool, typer.Option("--supervised", help="Start it again if it crashes; with --dir.")] = False,
    bind: Annotated[
        str, typer.Option(metavar="ADDR", help="Address to serve devices on; port 0: any.")
    ] = "127.0.0.1:0",
    advertise: Annotated[
        str, typer.Option(metavar="ADDR", help="Address devices connect to, if another; a name is looked up once.")
    ] = "",
    fsync: Annotated[bool, typer.Option("--fsync", help="Survive power cuts; slower.")] = False,
    start_at: Annotated[float | None, typer.Option(metavar="UNIX", help="Get ready, and submit at this time.")] = None,
    patience: Annotated[
        str | None,
        typer.Option(metavar="T", help="How long to wait for a silent coordinator; default: 10s, 2m once reached."),
    ] = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Sum the responses in lease order.")] = False,
    keys: Keys = None,
    bound: GivenBounds = None,
) -> int:
    """Run a job: its driver serves devices, aggregates their responses, and keeps the model."""
    reuse_freed_memory()
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    if supervised:
        return supervise_this(dir)
    source = load(file)
    if source.job.evaluate is not None and held_out is None:
        raise UsageError("HELD_OUT", "evaluate needs data that no device has", where=file.name, fix="--held-out FILE")
    if held_out is not None and not held_out.exists():
        raise UsageError("HELD_OUT", "there is no such file", where=str(held_out), fix="venn data split makes one")
    settings = Settings(
        name=name or file.stem,
        owner=owner or getpass.getuser(),
        run=run or (run_in(dir) if resume and dir else "") or time.strftime("%Y%m%d-%H%M%S"),
        coordinator=context.coordinator,
        keys=keys,
        requirement=parse_requirement(requirement),
        requirement_name=requirement_name,
        demand=demand,
        buffer=buffer,
        max_staleness=max_staleness,
        over_commit=parse_fraction(over_commit),
        min_response=parse_fraction(min_response),
        deadline_s=parse_duration(deadline),
        lease_s=None if lease is None else parse_duration(lease),
        stragglers=stragglers,
        repeat=repeat,
        rounds=rounds,
        max_rounds=max_rounds,
        compute_s=parse_duration(compute),
        params=params_of(param or []),
        data=data,
        held_out=held_out,
        seed=seed,
        folder=dir,
        resume=resume,
        bind=bind,
        advertise=advertise,
        insecure=context.insecure,
        fsync=fsync,
        deterministic=deterministic,
        start_at=start_at,
        patience_s=None if patience is None else parse_duration(patience),
        bounds=set_bounds(DriverBounds(), bound),
    )
    return run_async(_run(source, settings, context))


async def _run(source: JobFile, settings: Settings, context: Context) -> int:
    began = time.monotonic()

    def tell(closed: Round) -> None:
        reached = "".join(f" {key}={value:.4g}" for key, value in closed.metrics.items())
        counts = f"{closed.responses} responses, {closed.stragglers} stragglers, {closed.seconds:.1f} s"
        logger.info(f"round {closed.number} of {settings.limit} closed: {counts}{reached}")

    result = await run_job(source, settings, on_round=tell)
    if context.json:
        write_line(sys.stdout, json.dumps(summary(result, time.monotonic() - began)))
    elif result.finished:
        write_line(sys.stdout, f"{result.job} finished after {len(result.rounds)} rounds")
    else:
        write_line(sys.stderr, f"venn job: {result.job} {result.phase}: {result.message}")
    return ExitCode.OK if result.finished else ExitCode.FAILED


def summary(result: JobResult, seconds: float) -> dict[str, Any]:
    """The result of a job as ``--json`` prints it."""
    last = result.rounds[-1] if result.rounds else None
    return {
        "job": result.job,
        "finished": result.finished,
        "phase": result.phase,
        "message": result.message,
        "rounds": len(result.rounds),
        "metrics": tellable(last.metrics) if last else {},
        "seconds": round(seconds, 3),
    }


@app.command(epilog="Example: venn job check digits.py --param epochs=40")
@command
def check(
    context: Context,
    file: File,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Share, or sklearn-digits; give it twice for two. Default: made-up digits."),
    ] = None,
    held_out: HeldOut = None,
    param: Params = None,
    seed: Seed = 0,
) -> int:
    """Run one round on two shares in this process, without a coordinator."""
    from job_driver.check import check_job, facts_of, find_data, text_of

    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    source, params = load(file), params_of(param or [])
    with tempfile.TemporaryDirectory(prefix="venn-check-") as folder:
        shares, file_held_out = find_data(data or [], held_out, Path(folder))
        finding = check_job(source, shares=shares, held_out=file_held_out, params=params, seed=seed)
    text = json.dumps(facts_of(source, finding)) if context.json else text_of(source, finding)
    write_line(sys.stdout, text)
    return ExitCode.OK


def params_of(texts: list[str]) -> dict[str, ParamValue]:
    """Read parameters: ``epochs=40`` is a number, ``fast=true`` a boolean, the rest text. Raises UsageError."""
    params: dict[str, ParamValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise UsageError(
                "PARAM", f"{text!r} is not a parameter", where="--param", fix="write e.g. --param epochs=40"
            )
        params[name] = _value(value)
    return params


def _value(text: str) -> ParamValue:
    """A truth value or a number if it reads as one; else text. In double quotes it is text whatever it reads as."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@app.command("list", epilog="Example: venn job list")
@client_command
def list_jobs(context: Context, keys: Keys = None) -> int:
    """List all jobs of a coordinator."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_list(context, keys))


@app.command(epilog="Example: venn job wait digits --json")
@client_command
def wait(context: Context, job: JobName, keys: Keys = None) -> int:
    """Wait until a job ends. The exit code is 0 if it finished."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_wait(context, job, keys))


@app.command(epilog="Example: venn job cancel digits")
@client_command
def cancel(
    context: Context,
    job: JobName,
    reason: Annotated[str, typer.Option(help="Reason to show.")] = "cancelled by hand",
    keys: Keys = None,
) -> int:
    """End a job before it has finished."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_cancel(context, job, reason, keys))


@app.command(epilog="Example: venn job transfer digits ben")
@client_command
def transfer(
    context: Context,
    job: JobName,
    to: Annotated[str, typer.Argument(metavar="WHO", help="Name of a person who has joined, or digits of a key's id.")],
    keys: Keys = None,
) -> int:
    """Give a job to another owner."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_transfer(context, job, to, keys))


def described(status: job_pb2.JobStatus) -> dict[str, Any]:
    """A job as ``--json`` shows it."""
    metrics = dict(status.history[-1].metrics) if status.history else {}
    return {
        "job": key_text(status.key),
        "name": status.key.name,
        "phase": enum_name(job_pb2.JobPhase, status.phase),
        "requirement": status.requirement,
        "round": status.round,
        "rounds": status.rounds,
        "responses": status.responses,
        "responses_needed": status.responses_needed,
        "aborts": status.aborts,
        "waits": status.waits,
        "metrics": metrics,
        "age_s": round(status.age.seconds + status.age.nanos / 1e9, 3),
    }


async def _list(context: Context, keys: Path | None) -> int:
    jobs = await _jobs(context, keys)
    if context.json:
        write_line(sys.stdout, json.dumps({"jobs": [described(job) for job in jobs]}))
        return ExitCode.OK
    write_line(sys.stdout, f"{'JOB':<40} {'STATE':<12} {'ROUND':<8} RESPONSES")
    for job in jobs:
        at = f"{job.round}/{job.rounds or '?'}"
        state, name = enum_name(job_pb2.JobPhase, job.phase), printable(key_text(job.key), 80)
        write_line(sys.stdout, f"{name:<40} {state:<12} {at:<8} {job.responses} of {job.responses_needed}")
    return ExitCode.OK


async def _wait(context: Context, name: str, keys: Path | None) -> int:
    key = await _find(name, context, keys)
    last = job_pb2.JobStatus()
    async with _connected(context, keys) as channel:
        async for answer in job_stub(channel).WatchJob(job_pb2.WatchJobRequest(job=key)):
            if (answer.job.phase, answer.job.round) != (last.phase, last.round):
                logger.info(
                    f"{key_text(key)} {enum_name(job_pb2.JobPhase, answer.job.phase)}, round {answer.job.round}"
                )
            last = answer.job
    text = json.dumps(described(last)) if context.json else f"{key_text(key)} {enum_name(job_pb2.JobPhase, last.phase)}"
    write_line(sys.stdout, text)
    return ExitCode.OK if last.phase == job_pb2.JOB_PHASE_FINISHED else ExitCode.FAILED


async def _cancel(context: Context, name: str, reason: str, keys: Path | None) -> int:
    key = await _find(name, context, keys)
    async with _connected(context, keys) as channel:
        request = job_pb2.CancelJobRequest(job=key, reason=reason)
        phase = enum_name(job_pb2.JobPhase, (await job_stub(channel).CancelJob(request, timeout=CALL_S)).phase)
    text = json.dumps({"job": key_text(key), "phase": phase}) if context.json else f"{key_text(key)} {phase}"
    write_line(sys.stdout, text)
    return ExitCode.OK


async def _transfer(context: Context, name: str, to: str, keys: Path | None) -> int:
    key = await _find(name, context, keys)
    async with _connected(context, keys) as channel:
        answer = await job_stub(channel).TransferJob(job_pb2.TransferJobRequest(job=key, to=to), timeout=CALL_S)
    said = {"job": key_text(key), "owner": answer.owner}
    text = json.dumps(said) if context.json else f"{key_text(key)} belongs to {printable(to, 80)} now"
    write_line(sys.stdout, text)
    return ExitCode.OK


async def _jobs(context: Context, keys: Path | None) -> list[job_pb2.JobStatus]:
    """List all jobs, by arrival."""
    jobs: dict[str, job_pb2.JobStatus] = {}
    request = admin_pb2.ListJobsRequest(page_size=PAGE)
    async with _connected(context, keys) as channel:
        while True:
            page = await admin_stub(channel).ListJobs(request, timeout=CALL_S)
            jobs.update((key_text(job.key), job) for job in page.jobs)
            request.page_token = page.next_page_token
            if not request.page_token:
                break
    return list(jobs.values())


@asynccontextmanager
async def _connected(context: Context, keys: Path | None) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the coordinator, with an administrator's key if there is one. Raises PeerError where a call on it
    fails.
    """
    role: Role = "admin" if key_file("admin", keys or keys_folder()).exists() else "job"
    async with log_in_now(role, context.coordinator, keys, insecure=context.insecure).channel() as channel:
        try:
            yield channel
        except grpc.aio.AioRpcError as error:
            raise peer_error(error, where=f"coordinator at {context.coordinator}") from error


async def _find(name: str, context: Context, keys: Path | None) -> common_pb2.JobKey:
    """Find a job by owner/name/run, or by a name that one unfinished job has, else one job. Raises UsageError."""
    if name.count("/") == 2:
        owner, own, run = name.split("/")
        return common_pb2.JobKey(owner=owner, name=own, run=run)
    jobs = await _jobs(context, keys)
    named = [job for job in jobs if job.key.name == name]
    running = [job for job in named if job.phase not in OVER]
    for found in (running, named):
        if len(found) == 1:
            return found[0].key
    if not named:
        hint = did_you_mean(name, [job.key.name for job in jobs]) or "see: venn job list"
        raise UsageError("UNKNOWN_JOB", f"there is no job {printable(name, 80)}", where=context.coordinator, fix=hint)
    several = ", ".join(key_text(job.key) for job in named)
    raise UsageError("WHICH_JOB", f"several jobs have this name: {several}", where=name, fix="give owner/name/run")
