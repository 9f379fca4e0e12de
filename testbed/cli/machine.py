"""Commands about this machine: ``venn doctor``, ``down`` and ``bench``."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from device_agent.actions import TaskFailed
from device_agent.confine.orders import Means
from testbed.cli.shared import answer
from testbed.live.backend.broker import check as check_broker
from testbed.live.throttle.means import FIELDS, Check, probe
from testbed.scenario.backends import Faults, Leftover, Need, leftovers_of_backends, needs_of_backends
from venn.wire.command import Context, application, command
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import as_object, write_line
from venn.wire.places import keys_folder, state_folder
from venn.wire.process import MARK
from venn.wire.text import did_you_mean, printable

if TYPE_CHECKING:
    from testbed.bench.figures import Measured

BENCHMARKS = {
    "coordinator": "device cycles per second and memory per idle device, against a bare echo",
    "scheduler": "re-planning and look-ups with 1,000 open jobs in 100 groups over 4,096 regions, against srsf",
    "optimality": "how far policies are from the optimum of small instances, and from a bound on JCT",
    "regimes": "how venn-plus compares with venn: devices, noise, links, sessions, kinds of jobs; ten minutes",
    "simulator": "check-ins per second of the simulator in bulk on the even workload, against event by event",
    "emulation": "limits of devices: measured against asked for, by every means of this machine",
    "fidelity": "three scenarios on three seeds, run for real, against the same in simulation",
    "restart": "first lease after a coordinator with 1,000 devices was killed, and what it lost, against 5 s",
    "round": "one empty round, from start to close",
    "trust": "device cycles with a durable journal, and with TLS, against those without; time of a restart",
    "transfer": "models down and updates up, against a bare byte stream",
}

FUNCTIONS = {"round": ("rounds", "run_round"), "transfer": ("rounds", "run_transfer")}  # of others: NAME.run

app = application()


@app.command(epilog="Example: venn doctor --json")
@command
def doctor(context: Context) -> int:
    """Check each means of each limit and of confining job code, and what backends and a broker need: PASSED, or how to
    fix it.

    The exit code is 1 if nothing enforces a limit, or a backend cannot be asked.
    """
    machine = probe()
    (backends, faults), broker = needs_of_backends(), check_broker()
    confined = means_of_confinement()
    used = {field: machine.means(field) for field in FIELDS}
    checks = [asdict(each) | {"used": used[each.field] == each.means} for each in machine.checks]
    facts = {
        "passed": None not in used.values() and not faults,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
        "means": used,
        "checks": checks,
        "backends": {name: _rows(needs) for name, needs in backends.items()},
        "broker": _rows([broker]),
        "confined": [asdict(each) for each in confined],
        "faults": _faults(faults),
    }

    def lines() -> Iterator[str]:
        for each in machine.checks:
            first = "" if used[each.field] in (each.means, None) or not each.passed else "; not needed"
            yield _verdict(each.passed, each.field, each.means, each.says) + first
        yield from (_verdict(each.passed, each.field, each.means, each.says) for each in confined)
        for who, needs in (*backends.items(), ("broker", [broker])):
            yield from (_verdict(not each.missing, who, each.name, each.found or each.missing) for each in needs)
        yield from _fault_lines(faults)

    answer(context, facts, lines())
    return ExitCode.OK if facts["passed"] else ExitCode.FAILED


def means_of_confinement() -> list[Check]:
    """What confines job code on this machine: a worker is started, and what holds it is read back."""
    from device_agent.doctor import try_worker

    try:
        held, _ = asyncio.run(try_worker((keys_folder(), state_folder())))
    except (OSError, TaskFailed) as error:
        return [Check("job", "worker", False, f"none has started: {error}")]
    means = {
        Means.USER: (held.user is not None, "a user ID of its own"),
        Means.NAMESPACES: (held.namespaces, "processes, network and IPC of its own; all of it ends with the worker"),
        "files": (held.files, "a view of files of its own"),
        Means.LANDLOCK: (held.landlock > 0, f"files by the kernel's rules, version {held.landlock}"),
        Means.RLIMITS: (bool(held.limits), "memory, files and processes"),
    }
    no_namespaces = held.why_not.get(Means.NAMESPACES, "")
    return [
        Check("job", str(name), passed, says if passed else held.why_not.get(str(name), no_namespaces))
        for name, (passed, says) in means.items()
    ]


def _verdict(passed: bool, what: str, means: str, says: str) -> str:
    return f"{'PASSED' if passed else 'MISSING':<8} {what:<7} {means:<11} {printable(says, 500)}"


def _rows(needs: Iterable[Need]) -> list[dict[str, object]]:
    return [{"needs": each.name, "passed": not each.missing, "says": each.found or each.missing} for each in needs]


def _faults(faults: Faults) -> dict[str, dict[str, str]]:
    return {name: as_object(error) for name, error in faults.items()}


def _fault_lines(faults: Faults) -> Iterator[str]:
    yield from (f"{'FAULTY':<8} {name:<7} {printable(str(error), 1000)}" for name, error in faults.items())


@app.command(epilog="Example: venn down --dry-run")
@command
def down(
    context: Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    in_use_too: Annotated[
        bool, typer.Option("--all", help="Also what belongs to runs that still go on.", allow_from_autoenv=False)
    ] = False,
    of: Annotated[str | None, typer.Option("--of", metavar="MARK", help="Remove only what has this mark.")] = None,
) -> int:
    """Remove what testbeds that are gone have left: processes, cgroups, namespaces, containers, networks.

    The exit code is 4 if something could not be removed, or a backend cannot be asked."""
    if of is not None and not MARK.fullmatch(of):
        fix = "`venn down --dry-run` shows marks in brackets"
        raise UsageError("MARK", f"{of!r} is not a mark", where="--of", fix=fix)
    left, faults = leftovers_of_backends()
    found = [each for each in left if of in (None, each.mark)]
    spared = [each for each in found if each.in_use and not in_use_too]
    due = [each for each in found if each not in spared]
    failed: dict[str, str] = {}
    for each in due if not dry_run else ():
        try:
            each.remove()
        except Exception as error:  # foreign code, too, may do it: the others are still due
            failed[each.name] = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"

    def row(each: Leftover) -> dict[str, str]:
        why = {"failed": failed[each.name]} if each.name in failed else {}
        return {"kind": each.kind, "name": each.name, "mark": each.mark, **why}

    def lines() -> Iterator[str]:
        for each in due:
            verb = "would remove" if dry_run else "FAILED" if each.name in failed else "removed"
            why = f": {failed[each.name]}" if each.name in failed else ""
            yield f"{verb} {each.kind} {printable(each.name, 200)} ({each.mark}){why}"
        if spared:
            yield f"left alone: {len(spared)} items of runs that still go on (--all removes them too)"
        if not found:
            yield "nothing is left to remove" + (", as far as could be found" if faults else "")
        yield from _fault_lines(faults)

    shape = {
        "dry_run": dry_run,
        "removed": [row(each) for each in due],
        "spared": [row(each) for each in spared],
        "faults": _faults(faults),
    }
    answer(context, shape, lines(), unless_quiet=True)
    return ExitCode.PEER if failed or faults else ExitCode.OK


@app.command(epilog="Example: venn bench round --json")
@command
def bench(
    context: Context,
    name: Annotated[
        str,
        typer.Argument(help="Benchmark; `venn bench list` names them.", autocompletion=lambda: [*BENCHMARKS, "list"]),
    ],
    backend: Annotated[str, typer.Option(help="Run fidelity on this backend only.", show_default="all there are")] = "",
) -> int:
    """Run one benchmark. Each figure has a baseline of the same run."""
    if name == "list":
        answer(context, BENCHMARKS, (f"{name:14}{what}" for name, what in BENCHMARKS.items()))
        return ExitCode.OK
    if name not in BENCHMARKS:
        fix = did_you_mean(name, BENCHMARKS) or "`venn bench list` names them"
        raise UsageError("UNKNOWN_BENCHMARK", f"there is no benchmark {name!r}", fix=fix)
    module_name, function = FUNCTIONS.get(name, (name, "run"))
    module = import_module(f"testbed.bench.{module_name}")
    chosen = {}
    if backend:
        backends = getattr(module, "BACKENDS", ())
        if backend not in backends:
            known = did_you_mean(backend, backends) or f"it has {', '.join(backends) or 'no backends'}"
            raise UsageError("UNKNOWN_BACKEND", f"{name} does not run on a backend {backend!r}", fix=known)
        chosen = {"backends": [backend]}
    measured: Measured = getattr(module, function)(lambda text: write_line(sys.stderr, text), **chosen)
    answer(context, measured.to_json(), _table(measured))
    return ExitCode.FAILED if measured.saturated else ExitCode.OK


def _table(measured: "Measured") -> Iterator[str]:
    keys = dict.fromkeys([*measured.figures, *measured.baseline])
    width = max(34, *(len(key) + 2 for key in keys))
    yield f"{'FIGURE':{width}}{'OURS':>14}{'BASELINE':>14}"
    for key in keys:
        sides = (measured.figures, measured.baseline)
        yield f"{key:{width}}" + "".join(f"{side[key]:>14,.2f}" if key in side else f"{'-':>14}" for side in sides)
    yield from map(str, measured.untested)
    yield from (f"TOO BUSY, do not trust these figures: {each}" for each in measured.saturated)
    yield f"ratio {measured.ratio:.2f} (higher is better)"
