"""``venn data``: data sets split over devices."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from testbed.cli.shared import answer
from testbed.world.data import HELD_OUT
from testbed.world.data import split as split_data
from venn.wire.command import Context, application, command
from venn.wire.notation import parse_fraction

app = application()
data = application("Data sets for devices.", several=True)
app.add_typer(data, name="data")


@data.command(epilog="Example: venn data split sklearn-digits --devices 4 --out shares")
@command
def split(
    context: Context,
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="sklearn-digits, or FILE.npz with arrays x and y.")],
    devices: Annotated[int, typer.Option(min=1, metavar="N", help="How many shares.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write to; it must not have a split yet.")],
    split: Annotated[
        str, typer.Option(metavar="S", help="dirichlet(ALPHA): uneven classes; iid: even classes.")
    ] = "dirichlet(3.0)",
    held_out: Annotated[str, typer.Option(metavar="PART", help="Part that no device gets.")] = "20%",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the split.")] = 0,
) -> int:
    """Write a file for each device, share-0001.npz and on, and held_out.npz."""
    part = parse_fraction(held_out)
    shares = split_data(source, devices=devices, split=split, held_out=part, seed=seed, out=out)
    sizes = [_samples(share) for share in shares]
    kept_back = _samples(out / HELD_OUT) if (out / HELD_OUT).exists() else 0
    result = {
        "shares": [str(share) for share in shares],
        "samples": sizes,
        "held_out": str(out / HELD_OUT) if kept_back else None,
        "held_out_samples": kept_back,
    }
    spread = f"{min(sizes)} to {max(sizes)} samples each"
    told = f"{out}: {len(shares)} shares, {spread}, {sum(sizes)} in all; {kept_back} held out"
    answer(context, result, [told], unless_quiet=True)
    return 0


def _samples(path: Path) -> int:
    with np.load(path, allow_pickle=False) as arrays:
        return len(arrays["y"])
