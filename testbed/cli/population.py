"""``venn population``: what devices there are, and when."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from testbed.cli.shared import Set, answer
from testbed.report.draw_devices import drawings
from testbed.report.drawing import save
from testbed.report.population import Compared, describe_file, describe_fleets, describe_phones, describe_population
from testbed.report.terminal import console
from testbed.scenario import load
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import named
from testbed.scenario.readers import DEVICE_FILES
from testbed.scenario.requirements import requirement_of
from testbed.scenario.unfold import unfolded
from venn.wire.command import Context, application, command
from venn.wire.files import file_error

PHONES = "phones"
FILES = frozenset(DEVICE_FILES)  # suffixes; sessions have no others
WIDTH = 110  # columns of the table

app = application()
population = application("Populations of devices.", several=True)
app.add_typer(population, name="population")


@population.command(epilog="Example: venn population describe three-jobs --out figures")
@command
def describe(
    context: Context,
    *,
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Scenario; a file of devices or sessions (CSV, Parquet, pickle); or phones."
        ),
    ],
    count: Annotated[
        int, typer.Option(min=100, max=10_000_000, metavar="N", help="Most generated devices to use.")
    ] = 20_000,
    days: Annotated[float, typer.Option(min=1, max=365, metavar="N", help="Most days of sessions to generate.")] = 5.0,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="In place of the scenario's seed; for phones 0.")
    ] = None,
    set: Set = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also draw SVG, PDF and CSV into this folder.")
    ] = None,
) -> int:
    """Print the properties of a population beside those that it should have."""
    if what == PHONES and not Path(what).exists():
        compared = describe_phones(count, days, seed or 0)
    elif Path(what).suffix in FILES and (Path(what).suffix or Path(what).is_file()):
        compared = describe_file(Path(what))
    else:
        scenario = load(named(what), set or ())
        compared = _of_scenario(scenario, count, days, scenario.seed if seed is None else seed)
    files = _draw(compared, out) if out is not None else []
    if not (context.json or context.quiet):
        console(context, least_width=WIDTH).print(_table(compared))
    shape = {"population": what, "compared": [_json(each) for each in compared], "figures": files}
    answer(context, shape, (f"figure  {file}" for file in files), unless_quiet=True)
    return 0


def _of_scenario(scenario: Scenario, most: int, days: float, seed: int) -> tuple[Compared, ...]:
    whole = unfolded(scenario)
    if whole.population is None:
        return describe_fleets(whole.fleet_specs(), seed=seed, time_scale=whole.time_scale)
    stated = dict(whole.requirement_of(name) for name in whole.jobs)
    requirements = {name: requirement_of(text) for name, text in sorted(stated.items())}
    return describe_population(whole.population.spec(), requirements, most=most, days=days, seed=seed)


def _draw(compared: tuple[Compared, ...], out: Path) -> list[str]:
    files = []
    for drawing in drawings(compared):
        try:
            save(drawing, out)
        except OSError as error:
            raise file_error(error, out) from error
        files.append(str(out / f"{drawing.name}.svg"))
    return files


def _json(each: Compared) -> dict[str, object]:
    rows = [
        {"at": row.at, "asked": None if math.isnan(row.asked) else row.asked, "made": row.made} for row in each.rows
    ]
    return {"name": each.name, "unit": each.unit, "kind": each.kind, "rows": rows}


def _table(compared: tuple[Compared, ...]) -> Table:
    """Each figure in its row; where the two are furthest apart is marked."""
    table = Table(box=None, pad_edge=False, header_style="")
    for heading in ("WHAT", "UNIT", "AT", "ASKED", "MADE", ""):
        table.add_column(heading, justify="right" if heading in ("AT", "ASKED", "MADE") else "left", no_wrap=True)
    for each in compared:
        worst = each.worst
        for index, row in enumerate(each.rows):
            first = (each.name, each.unit) if index == 0 else ("", "")
            asked, made = _shown(row.asked), _shown(row.made)
            table.add_row(*first, row.at, asked, made, "furthest apart" if row is worst and asked != made else "")
    return table


def _shown(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
