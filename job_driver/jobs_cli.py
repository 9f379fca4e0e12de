"""``venn job list | wait | cancel``: jobs as a coordinator knows them."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer

from job_driver.server import key_text
from venn.v1 import admin_pb2, common_pb2, job_pb2
from venn.wire import logs
from venn.wire.channel import open_channel
from venn.wire.command import Context, client_command, run_async
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.status import peer_error
from venn.wire.stubs import admin_stub, job_stub
from venn.wire.text import did_you_mean, printable
from venn.wire.tokens import client_token

CALL_S = 10.0
PAGE = 500  # jobs that are asked for at once
OVER = (job_pb2.JOB_PHASE_FINISHED, job_pb2.JOB_PHASE_CANCELLED, job_pb2.JOB_PHASE_FAILED)
logger = logging.getLogger(__name__)

Tokens = Annotated[Path | None, typer.Option(metavar="DIR", help="Coordinator's token folder.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="Job's name, or owner/name/run.")]


@client_command
def list_jobs(context: Context, tokens: Tokens = None) -> int:
    """List all jobs of a coordinator."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_list(context, tokens))


@client_command
def wait(context: Context, job: JobName, tokens: Tokens = None) -> int:
    """Wait until a job ends. The exit code is 0 if it finished."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_wait(context, job, tokens))


@client_command
def cancel(
    context: Context,
    job: JobName,
    reason: Annotated[str, typer.Option(help="Reason to show.")] = "cancelled by hand",
    tokens: Tokens = None,
) -> int:
    """End a job before it has finished."""
    logs.configure(component="job", verbose=context.verbose, quiet=context.quiet)
    return run_async(_cancel(context, job, reason, tokens))


def described(status: job_pb2.JobStatus) -> dict[str, Any]:
    """A job as ``--json`` shows it."""
    metrics = dict(status.history[-1].metrics) if status.history else {}
    return {
        "job": key_text(status.key),
        "name": status.key.name,
        "phase": phase_name(status.phase),
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


def phase_name(phase: int) -> str:
    return job_pb2.JobPhase.Name(job_pb2.JobPhase.ValueType(phase)).removeprefix("JOB_PHASE_").lower()


async def _list(context: Context, tokens: Path | None) -> int:
    jobs = await _jobs(context.coordinator, tokens)
    if context.json:
        write_line(sys.stdout, json.dumps({"jobs": [described(job) for job in jobs]}))
        return ExitCode.OK
    write_line(sys.stdout, f"{'JOB':<40} {'STATE':<12} {'ROUND':<8} RESPONSES")
    for job in jobs:
        at = f"{job.round}/{job.rounds or '?'}"
        state, name = phase_name(job.phase), printable(key_text(job.key), 80)
        write_line(sys.stdout, f"{name:<40} {state:<12} {at:<8} {job.responses} of {job.responses_needed}")
    return ExitCode.OK


async def _wait(context: Context, name: str, tokens: Path | None) -> int:
    key = await _find(name, context.coordinator, tokens)
    last = job_pb2.JobStatus()
    async with open_channel(context.coordinator, token=client_token("job", context.coordinator, dir=tokens)) as channel:
        try:
            async for answer in job_stub(channel).WatchJob(job_pb2.WatchJobRequest(job=key)):
                if (answer.job.phase, answer.job.round) != (last.phase, last.round):
                    logger.info(f"{key_text(key)} {phase_name(answer.job.phase)}, round {answer.job.round}")
                last = answer.job
        except grpc.aio.AioRpcError as error:
            raise peer_error(error, where=f"coordinator at {context.coordinator}") from error
    text = json.dumps(described(last)) if context.json else f"{key_text(key)} {phase_name(last.phase)}"
    write_line(sys.stdout, text)
    return ExitCode.OK if last.phase == job_pb2.JOB_PHASE_FINISHED else ExitCode.FAILED


async def _cancel(context: Context, name: str, reason: str, tokens: Path | None) -> int:
    key = await _find(name, context.coordinator, tokens)
    async with open_channel(context.coordinator, token=client_token("job", context.coordinator, dir=tokens)) as channel:
        try:
            request = job_pb2.CancelJobRequest(job=key, reason=reason)
            answer = await job_stub(channel).CancelJob(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise peer_error(error, where=f"coordinator at {context.coordinator}") from error
    phase = phase_name(answer.phase)
    text = json.dumps({"job": key_text(key), "phase": phase}) if context.json else f"{key_text(key)} {phase}"
    write_line(sys.stdout, text)
    return ExitCode.OK


async def _jobs(coordinator: str, tokens: Path | None) -> list[job_pb2.JobStatus]:
    """All of them, by arrival."""
    jobs: dict[str, job_pb2.JobStatus] = {}
    request = admin_pb2.ListJobsRequest(page_size=PAGE)
    async with open_channel(coordinator, token=client_token("admin", coordinator, dir=tokens)) as channel:
        try:
            while True:
                page = await admin_stub(channel).ListJobs(request, timeout=CALL_S)
                jobs.update((key_text(job.key), job) for job in page.jobs)
                request.page_token = page.next_page_token
                if not request.page_token:
                    break
        except grpc.aio.AioRpcError as error:
            raise peer_error(error, where=f"coordinator at {coordinator}") from error
    return list(jobs.values())


async def _find(name: str, coordinator: str, tokens: Path | None) -> common_pb2.JobKey:
    """owner/name/run as it stands; a name if just one unfinished job, else just one job, has it. Raises UsageError."""
    if name.count("/") == 2:
        owner, own, run = name.split("/")
        return common_pb2.JobKey(owner=owner, name=own, run=run)
    jobs = await _jobs(coordinator, tokens)
    named = [job for job in jobs if job.key.name == name]
    running = [job for job in named if job.phase not in OVER]
    for found in (running, named):
        if len(found) == 1:
            return found[0].key
    if not named:
        hint = did_you_mean(name, [job.key.name for job in jobs]) or "see: venn job list"
        raise UsageError("UNKNOWN_JOB", f"there is no job {printable(name, 80)}", where=coordinator, fix=hint)
    several = ", ".join(key_text(job.key) for job in named)
    raise UsageError("WHICH_JOB", f"several jobs have this name: {several}", where=name, fix="give owner/name/run")
