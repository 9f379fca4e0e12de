"""Runs the runs of a comparison: one after the other, each in a process of its own, in an order that favours nobody.

Policies take turns in going first: at each seed the order is rotated by one, so that what drifts on the host (its
temperature, its neighbours) meets every policy alike. A finished run is kept; ``resume`` goes on where it stopped.
"""

import asyncio
import hashlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.report.comparison import Comparison, RunResult, compare, read_run
from testbed.report.jsonlines import Row
from testbed.report.words import span
from testbed.scenario import Scenario
from venn.wire.errors import ExitCode, PeerError, UsageError, VennError
from venn.wire.files import write_atomic

PLAN = "comparison.json"
STOP_GRACE_S = 60.0  # for a run that is stopped to write its partial report


@dataclass(frozen=True, slots=True)
class Asked:
    """One run of the comparison."""

    scenario: Path
    policy: str
    seed: int
    out: Path


@dataclass(frozen=True, slots=True)
class Plan:
    scenarios: tuple[tuple[Path, Scenario], ...]
    policies: tuple[str, ...]  # the first is what the others are held against
    seeds: int  # runs of each policy, from the scenario's own seed upwards
    out: Path
    backend: str = ""

    def runs(self) -> Iterator[Asked]:
        """In the order in which they are run."""
        for path, scenario in self.scenarios:
            for turn in range(self.seeds):
                first = turn % len(self.policies)
                seed = scenario.seed + turn
                for policy in (*self.policies[first:], *self.policies[:first]):
                    yield Asked(path, policy, seed, self.out / scenario.name / f"seed-{seed}" / _slug(policy))

    def described(self) -> Row:
        """What must not change when a comparison is resumed."""
        return {
            "scenarios": {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path, _ in self.scenarios},
            "policies": list(self.policies),
            "backend": self.backend,
        }


Runner = Callable[[Asked, Path, str], Awaitable[Row]]  # of what, into which folder, on which backend: its summary


@dataclass
class Progress:
    """Says how far it is, and how long it will take, to ``say``."""

    total: int
    say: Callable[[str], None]
    done: int = 0
    spent: list[float] = field(default_factory=list)  # seconds of the runs that were run now

    def report(self, run: RunResult) -> None:
        self.done += 1
        result = f"mean JCT {run.mean_jct_s:.1f} s" if run.mean_jct_s is not None else "not all jobs finished"
        busy = "; THE HOST WAS TOO BUSY" if run.saturated else ""
        left = f"; about {span(self.left_s)} left" if self.spent and self.done < self.total else ""
        self.say(f"{self.done} of {self.total}  seed {run.seed}  {run.policy}: {result}{busy}{left}")

    @property
    def left_s(self) -> float:
        return (self.total - self.done) * sum(self.spent) / len(self.spent)


def prepare(plan: Plan, *, resume: bool) -> None:
    """Make the folder, or check that it is the same comparison's. Raises UsageError."""
    path = plan.out / PLAN
    if plan.out.exists() and any(plan.out.iterdir()):
        if not resume:
            fix = "add --resume to go on with it, or name another with --out"
            raise UsageError("NOT_EMPTY", "exists already and is not an empty folder", where=str(plan.out), fix=fix)
        if _read(path) != plan.described():
            message = "holds another comparison: other scenarios, policies or backend, or a scenario that has changed"
            raise UsageError("OTHER_COMPARISON", message, where=str(plan.out), fix="name another folder with --out")
        return
    plan.out.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(plan.described(), indent=2).encode() + b"\n")


async def run_all(plan: Plan, say: Callable[[str], None], run: Runner | None = None) -> list[Comparison]:
    """Run what is not yet there, with ``run``: by default ``venn run`` in a process of its own.

    Raises the error of a run that could not be made.
    """
    run = run or run_apart
    asked = list(plan.runs())
    progress = Progress(len(asked), say)
    results: dict[Path, list[RunResult]] = {}
    for one in asked:
        folder, summary = _kept(one.out)
        if summary is None:
            started = time.monotonic()
            try:
                summary = await run(one, folder, plan.backend)
            except asyncio.CancelledError:
                say(f"stopped after {progress.done} of {progress.total} runs; go on with --resume")
                raise
            progress.spent.append(time.monotonic() - started)
        result = read_run(summary, str(folder))
        results.setdefault(one.scenario, []).append(result)
        progress.report(result)
    return [compare(scenario.name, plan.policies, results[path]) for path, scenario in plan.scenarios]


async def run_apart(one: Asked, folder: Path, backend: str) -> Row:
    """``venn run``; cancelled, it stops its run and waits until nothing of it is left."""
    command = [sys.executable, "-m", "testbed.cli.main", "run", str(one.scenario), "--policy", one.policy]
    command += ["--seed", str(one.seed), "--out", str(folder), "--json", *(["--backend", backend] if backend else [])]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        await _stop(process)
        raise
    return read_answer(output, process.returncode or 0, one)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Let it stop its own programs and write its partial report."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_GRACE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def read_answer(output: bytes, code: int, one: Asked) -> Row:
    """The summary that the run printed; raises what it says went wrong."""
    where = f"{one.scenario.name} under {one.policy}, seed {one.seed}"
    try:
        said = json.loads(output)
    except ValueError:
        raise PeerError("RUN_DIED", f"ended with exit code {code} and no summary", where=where) from None
    if "error" in said:
        error: dict[str, str] = said["error"]
        failure = VennError(error["reason"], error["message"], where=error["where"] or where, fix=error["fix"])
        failure.exit_code = ExitCode(code) if code in (2, 3, 4) else ExitCode.PEER
        raise failure
    if not isinstance(said, dict) or said.get("interrupted"):
        raise PeerError("RUN_STOPPED", "was stopped from outside", where=where, fix="go on with --resume")
    return said


def _kept(out: Path) -> tuple[Path, Row | None]:
    """The folder of a run and its summary; or a folder that is free, if it was not run to its end."""
    folder, again = out, 1
    while folder.exists():
        summary = _read(folder / "summary.json")
        if summary and not summary.get("interrupted"):
            return folder, summary
        again += 1
        folder = out.with_name(f"{out.name}-{again}")
    return folder, None


def _read(path: Path) -> Row:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _slug(policy: str) -> str:
    """A folder's name for a policy, which may be FILE.py:NAME."""
    return "".join(character if character.isalnum() or character in "-_" else "-" for character in policy)


def check_policies(names: Sequence[str]) -> None:
    """Raises UsageError for one that is not there, or named twice."""
    from coordinator.policies.registry import PolicyError, load_policy

    if len(set(names)) != len(names) or not names:
        raise UsageError("POLICIES", "name each policy once", where="--policies", fix="e.g. --policies random,venn")
    for name in names:
        try:
            load_policy(name)
        except PolicyError as error:
            raise UsageError("NO_POLICY", str(error), where="--policies") from None
