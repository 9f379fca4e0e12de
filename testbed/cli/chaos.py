"""``venn chaos``: worlds in which everything fails, and what must hold in them."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from testbed.chaos import script as scripts
from testbed.chaos import world
from testbed.chaos.campaign import Campaign, run_campaign, seed_of_today
from testbed.chaos.outcome import Outcome
from testbed.chaos.shrink import described, shrink
from testbed.cli.chaos_run import chaos_run
from testbed.cli.shared import answer
from venn.wire.command import Context, application, command
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line

HOURS, EACH_HOURS = 100.0, 4.0
SAY_EVERY_S = 5.0

app = application()
chaos = application("Worlds in which everything fails.", several=True)
app.add_typer(chaos, name="chaos")
chaos.command("run", epilog="Example: venn chaos run chaos --duration 10m")(command(chaos_run))


@chaos.command(epilog="Example: venn chaos sim --hours 10000")
@command
def sim(
    context: Context,
    *,
    hours: Annotated[float | None, typer.Option(help="Virtual hours in all.", show_default="100", min=0)] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Worlds in all, in place of hours.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="Begin no world after so many real seconds.", min=0)] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="First seed.", min=0, show_default="one of today")
    ] = None,
    each: Annotated[float, typer.Option(help="Virtual hours with faults of each world.", min=0.01)] = EACH_HOURS,
    jobs: Annotated[int, typer.Option(help="Worlds at once; 0: one for each core.", min=0, max=1024)] = 0,
    script: Annotated[Path | None, typer.Option(metavar="FILE", help="Replay a world that was written down.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a failing world here.", show_default="chaos-SEED.json")
    ] = None,
    cut_down: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Cut a failing world down.")] = True,
) -> int:
    """Run coordinator, drivers and devices in virtual time while everything fails, and check what must hold.

    A world that breaks a rule is named by its seed, cut down, and written to a file. The exit code is 1 then."""
    if script is not None:
        return _report(context, _replayed(world.run(scripts.read(script))), cut_down=False, out=out)
    first = seed_of_today() if seed is None else seed
    bounded = hours is not None or seeds is not None or seconds is not None
    progress = _Progress(context, first)
    found = Campaign(first)
    try:
        run_campaign(
            found,
            each_hours=each,
            jobs=jobs or _cores(),
            hours=hours if bounded else HOURS,
            seeds=seeds,
            seconds=seconds,
            progress=progress.tell,
        )
    except KeyboardInterrupt:
        _report(context, found, cut_down=False, out=out)
        return ExitCode.INTERRUPTED
    return _report(context, found, cut_down=cut_down, out=out)


def _replayed(outcome: Outcome) -> Campaign:
    campaign = Campaign(outcome.script.seed)
    campaign.add(outcome)
    return campaign


def _report(context: Context, found: Campaign, *, cut_down: bool, out: Path | None) -> int:
    """Say what came of it; a failing world is cut down and written down first."""
    failed, path = found.failed, None
    if failed is not None:
        seed = failed.script.seed
        if not context.quiet:
            write_line(sys.stderr, f"seed {seed} breaks a rule: {failed.violation}")
            write_line(sys.stderr, f"again: venn chaos sim --seed {seed} --seeds 1 --each {failed.script.hours:g}")
        if cut_down:
            failed = shrink(failed, world.run)
        path = out or Path(f"chaos-{seed}.json")
        failed.script.write(path)
    answer(context, _shape(found, failed, path), _lines(found, failed, path))
    return ExitCode.OK if failed is None else ExitCode.FAILED


def _shape(found: Campaign, failed: Outcome | None, path: Path | None) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "first_seed": found.first_seed,
        "seeds": found.seeds,
        "virtual_hours": round(found.hours, 3),
        "took_s": round(found.took_s, 3),
        "virtual_hours_per_s": round(found.hours_per_s, 3),
        "counts": dict(sorted(found.counts.items())),
        "violation": None,
    }
    if failed is not None and failed.violation is not None:
        violation = failed.violation
        shape["violation"] = {
            "seed": failed.script.seed,
            "what": violation.what,
            "text": violation.text,
            "at_s": violation.at,
            "script": str(path),
            "faults": [str(fault) for fault in failed.script.faults],
        }
    return shape


def _lines(found: Campaign, failed: Outcome | None, path: Path | None) -> Iterator[str]:
    yield _told(found)
    for kind, times in sorted(found.counts.items()):
        if kind.startswith("fault: "):
            yield f"  {kind.removeprefix('fault: '):<16}{times:>8}"
    if failed is None:
        yield "no rule was broken"
        return
    yield from described(failed)
    yield f"replay it: venn chaos sim --script {path}"


def _told(found: Campaign) -> str:
    rounds, receipts = found.counts["rounds"], found.counts["receipts"]
    speed = f"{found.hours_per_s:.1f} an elapsed second" if found.took_s else "replayed"
    done = f"{found.seeds} seeds from {found.first_seed}, {found.hours:.1f} virtual hours ({speed})"
    return f"{done}: {found.faults} faults, {rounds} rounds, {receipts} receipts"


class _Progress:
    """Lines of progress on stderr."""

    def __init__(self, context: Context, first: int) -> None:
        self._quiet, self._said_at = context.quiet, time.monotonic()
        if not self._quiet:
            write_line(sys.stderr, f"first seed {first}; Ctrl-C ends it")

    def tell(self, campaign: Campaign) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            write_line(sys.stderr, _told(campaign))


def _cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
