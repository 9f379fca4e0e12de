"""``venn bench``: measure this machine, each figure against a baseline in the same run."""

import json
import sys
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

from testbed.bench.figures import Measured
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.text import did_you_mean


class Benchmark(NamedTuple):
    """What it measures, and where: a function that takes where to say how far it is, and returns ``Measured``."""

    summary: str
    module: str  # of testbed.bench
    function: str = "run"


BENCHMARKS = {
    "coordinator": Benchmark("device cycles per second and memory per idle device, against a bare echo", "coordinator"),
    "scheduler": Benchmark(
        "re-planning and look-ups with 1,000 open jobs in 100 groups over 4,096 regions, against srsf", "scheduler"
    ),
    "optimality": Benchmark(
        "how far policies are from the optimum of small instances, and from a bound on JCT", "optimality"
    ),
    "regimes": Benchmark(
        "how venn-plus compares with venn: devices, noise, links, sessions, kinds of jobs; ten minutes", "regimes"
    ),
    "simulator": Benchmark(
        "check-ins per second of the simulator in bulk on the even workload, against event by event", "simulator"
    ),
    "emulation": Benchmark(
        "limits of devices: measured against asked for, by every means of this machine", "emulation"
    ),
    "fidelity": Benchmark("three scenarios on three seeds, run for real, against the same in simulation", "fidelity"),
    "round": Benchmark("one empty round, from start to close", "rounds", "run_round"),
    "transfer": Benchmark("models down and updates up, against a bare byte stream", "rounds", "run_transfer"),
}

app = application("Measure this machine. Every figure has a baseline of the same run.")


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
    """Run one benchmark."""
    if name == "list":
        write_line(sys.stdout, _list(context))
        return 0
    if name not in BENCHMARKS:
        fix = did_you_mean(name, BENCHMARKS) or "`venn bench list` names them"
        raise UsageError("UNKNOWN_BENCHMARK", f"there is no benchmark {name!r}", fix=fix)
    _, module_name, function = BENCHMARKS[name]
    module = import_module(f"testbed.bench.{module_name}")
    chosen = {}
    if backend:
        backends = getattr(module, "BACKENDS", ())
        if backend not in backends:
            known = did_you_mean(backend, backends) or f"it has {', '.join(backends) or 'no backends'}"
            raise UsageError("UNKNOWN_BACKEND", f"{name} does not run on a backend {backend!r}", fix=known)
        chosen = {"backends": [backend]}
    measured: Measured = getattr(module, function)(lambda text: write_line(sys.stderr, text), **chosen)
    write_line(sys.stdout, json.dumps(measured.to_json()) if context.json else _table(measured))
    return ExitCode.FAILED if measured.saturated else ExitCode.OK


def _list(context: Context) -> str:
    if context.json:
        return json.dumps({name: each.summary for name, each in BENCHMARKS.items()})
    return "\n".join(f"{name:14}{each.summary}" for name, each in BENCHMARKS.items())


def _table(measured: Measured) -> str:
    keys = dict.fromkeys([*measured.figures, *measured.baseline])
    width = max(34, *(len(key) + 2 for key in keys))
    lines = [f"{'FIGURE':{width}}{'OURS':>14}{'BASELINE':>14}"]
    for key in keys:
        cells = (
            f"{side[key]:>14,.2f}" if key in side else f"{'-':>14}" for side in (measured.figures, measured.baseline)
        )
        lines.append(f"{key:{width}}{''.join(cells)}")
    lines += [str(each) for each in measured.untested]
    lines += [f"TOO BUSY, do not trust these figures: {each}" for each in measured.saturated]
    return "\n".join([*lines, f"ratio {measured.ratio:.2f} (higher is better)"])


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn bench")
