"""Simulated runs of a comparison: cells, on as many cores as asked for; what is there already is kept."""

from collections.abc import Sequence
from pathlib import Path

from testbed.compare.cell import read_row
from testbed.compare.manifest import SCENARIO, Run
from testbed.compare.orders import Order, order_for
from testbed.compare.plan import Asked, Plan
from testbed.compare.pool import WORKER, run_orders
from testbed.compare.progress import Progress
from testbed.report.jsonlines import text
from testbed.report.run_result import read_run

LOG = "worker.log"


async def run_cells(plan: Plan, progress: Progress, worker: Sequence[str] = WORKER) -> list[Run]:
    """Simulate what is not yet there. Raises the error of the first cell that fails."""
    asked = {order.out: (order, one) for one in plan.runs() for order in [_order(plan, one)]}
    missing = [order for order, _ in asked.values() if not _kept(order)]
    progress.expect([asked[order.out][1] for order in missing])
    wanted = {order.out for order in missing}
    for order, one in asked.values():
        if order.out not in wanted:
            progress.ended(one, read_run(read_row(Path(order.out)), order.out), None)

    def done(order: Order, seconds: float) -> None:
        progress.ended(asked[order.out][1], read_run(read_row(Path(order.out)), order.out), seconds)

    def part(order: Order, fraction: float, compiling: bool) -> None:
        if compiling:
            progress.compiles()
        progress.within(asked[order.out][1], fraction)

    if missing:
        await run_orders(missing, plan.processes, done, part, log=plan.out / LOG, worker=worker)
    return [_run(order, one) for order, one in asked.values()]


def kept_cells(plan: Plan) -> list[Run]:
    """Those that are there."""
    return [_run(order, one) for one in plan.runs() for order in [_order(plan, one)] if _kept(order)]


def _order(plan: Plan, one: Asked) -> Order:
    return order_for(one, plan.out / one.workload.name / SCENARIO)


def _run(order: Order, one: Asked) -> Run:
    return Run(one, Path(order.out), Path(order.world))


def _kept(order: Order) -> bool:
    """Whether the cell's file is there, whole, and the world's file beside it."""
    return text(read_row(Path(order.out)), "key") == order.key and bool(read_row(Path(order.world)))
