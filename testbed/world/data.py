"""Data sets, and how one is split over devices: share-0001.npz ..., and held_out.npz that no device has.

Each file holds the arrays ``x`` (samples, one per row) and ``y`` (their classes). The same samples, arguments and seed
give the same bytes.
"""

import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.lib.format as npy
from numpy.typing import NDArray

from venn.wire.errors import UsageError
from venn.wire.files import file_error
from venn.wire.notation import format_bytes, parse_number
from venn.wire.text import did_you_mean, printable

DIGITS = "sklearn-digits"
MOST_UNPACKED = 1032  # bytes for each of the file: deflate makes no more of zeros


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of a data set and their classes."""

    x: NDArray[np.generic]  # (samples, ...)
    y: NDArray[np.generic]  # (samples,)

    def __post_init__(self) -> None:
        if self.y.ndim != 1 or self.x.ndim < 1 or len(self.x) != len(self.y):
            raise ValueError(
                f"x of shape {self.x.shape} and y of shape {self.y.shape} are not samples and a class for each"
            )
        if self.y.dtype.kind == "f" and not np.isfinite(self.y).all():
            raise ValueError("y holds values that are not finite, which name no class")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> "Samples":
        return Samples(self.x[rows], self.y[rows])


def load(source: str) -> Samples:
    """``sklearn-digits`` or FILE.npz with the arrays x and y. Raises UsageError."""
    if source == DIGITS:
        return _digits()
    if source.endswith(".npz"):
        return _file(Path(source).expanduser())
    hint = did_you_mean(source, [DIGITS])
    raise UsageError("SOURCE", f"no data set {source!r}", fix=f"{hint or f'take {DIGITS}'} Or FILE.npz with x and y")


def _digits() -> Samples:
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # it ships no types
    except ImportError as error:
        raise UsageError(
            "MISSING_EXTRA", f"{DIGITS} needs scikit-learn", fix="pip install 'venn-testbed[data]'"
        ) from error
    x, y = load_digits(return_X_y=True)
    return Samples(x, y)


def _file(path: Path) -> Samples:
    fix = "save it with numpy.savez(FILE, x=..., y=...)"
    try:
        with ZipFile(path) as archive:
            return Samples(*(_array(archive, f"{name}.npy") for name in ("x", "y")))
    except OSError as error:
        raise UsageError("SOURCE", f"cannot be read: {error.strerror or error}", where=str(path), fix=fix) from error
    except KeyError as error:
        raise UsageError("SOURCE", "has no arrays x and y", where=str(path), fix=fix) from error
    except (ValueError, BadZipFile, zlib.error, TypeError, EOFError, NotImplementedError, RuntimeError) as error:
        told = printable(str(error), 200)
        raise UsageError("SOURCE", f"is not a data set: {told}", where=str(path), fix=fix) from error


def _array(archive: ZipFile, name: str) -> NDArray[np.generic]:
    """An array of the archive, of no more bytes than it has there. Raises KeyError: it is not there; ValueError and
    others: it is damaged.
    """
    size = archive.getinfo(name).file_size
    if size > MOST_UNPACKED * archive.start_dir:
        raise ValueError(f"{name} would be {format_bytes(size)}, and the file is {format_bytes(archive.start_dir)}")
    with archive.open(name) as file:
        version = npy.read_magic(file)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read_header is None:
            raise ValueError(f"{name} has format {version}")
        shape, _, dtype = read_header(file)
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{name} says that it has {math.prod(shape)} values, and it is cut short")
    with archive.open(name) as file:
        return npy.read_array(file, allow_pickle=False)


HELD_OUT = "held_out.npz"
Rows = NDArray[np.int64]

_DIRICHLET = re.compile(r"dirichlet\s*\((.*)\)")


@dataclass(frozen=True, slots=True)
class Iid:
    """All samples in random order, dealt evenly."""

    def deal(self, samples: Samples, devices: int, rng: np.random.Generator) -> list[Rows]:
        return list(np.array_split(rng.permutation(len(samples)), devices))


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """Each class is dealt to all devices in proportions drawn from Dirichlet(alpha): small alpha, uneven classes."""

    alpha: float  # > 0

    def deal(self, samples: Samples, devices: int, rng: np.random.Generator) -> list[Rows]:
        shares: list[list[Rows]] = [[] for _ in range(devices)]
        for label in np.unique(samples.y):
            rows = rng.permutation(np.flatnonzero(samples.y == label))
            ends = np.cumsum(rng.dirichlet(np.full(devices, self.alpha)))[:-1]
            for share, part in zip(shares, np.split(rows, np.rint(ends * len(rows)).astype(np.int64)), strict=True):
                share.append(part)
        return _none_empty([np.concatenate(share) for share in shares])


def parse_split(text: str) -> Iid | Dirichlet:
    """``iid`` or ``dirichlet(ALPHA)``. Raises UsageError."""
    stripped = text.strip()
    if stripped == "iid":
        return Iid()
    if match := _DIRICHLET.fullmatch(stripped):
        alpha = parse_number(match[1].strip())
        if 1e-3 <= alpha <= 1e6:
            return Dirichlet(alpha)
        raise UsageError(
            "SPLIT", f"alpha {match[1].strip()} is not between 0.001 and 1000000", fix="write e.g. dirichlet(3.0)"
        )
    raise UsageError("SPLIT", f"{text!r} is not a way to split data", fix="write dirichlet(3.0) or iid")


def split(source: str, *, devices: int, split: str, held_out: Fraction, seed: int, out: Path) -> list[Path]:
    """Write a share per device and what is held out; returns the shares' paths, the first device's first.

    ``held_out`` is a part in [0, 1) of the samples, rounded down; if that is none there is no held_out.npz.
    Raises UsageError, also rather than overwrite or mix with an earlier split; PeerError if it cannot be written.
    """
    way = parse_split(split)
    if devices < 1:
        raise UsageError("DEVICES", f"{devices} devices cannot be given data", fix="1 or more")
    if not 0 <= held_out < 1:
        raise UsageError("HELD_OUT", "nothing would be left for the devices", fix="hold out less, e.g. 20%")
    samples = load(source)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(samples))
    kept_back = math.floor(held_out * len(samples))
    rest = samples.take(order[kept_back:])
    if devices > len(rest):
        raise UsageError(
            "TOO_FEW_SAMPLES",
            f"{devices} devices are more than the {len(rest)} samples that are left to share",
            where=source,
            fix=f"at most {len(rest)} devices, or a larger data set",
        )
    _prepare(out)
    if kept_back:
        _save(out / HELD_OUT, samples.take(order[:kept_back]))
    paths = [out / f"share-{number:04d}.npz" for number in range(1, devices + 1)]
    for path, rows in zip(paths, way.deal(rest, devices, rng), strict=True):
        _save(path, rest.take(rows))
    return paths


def _none_empty(shares: Sequence[Rows]) -> list[Rows]:
    """Give each device that is left empty one sample of the largest share, the first of equals."""
    filled = list(shares)
    for index, share in enumerate(filled):
        if len(share) == 0:
            largest = max(range(len(filled)), key=lambda other: len(filled[other]))
            filled[index], filled[largest] = filled[largest][-1:], filled[largest][:-1]
    return filled


def _prepare(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "OUT", f"cannot be made: {error.strerror}", where=str(out), fix="name another folder"
        ) from error
    if any(out.glob("share-*.npz")) or (out / HELD_OUT).exists():
        raise UsageError("OUT", "already holds a split", where=str(out), fix="name an empty folder")


def _save(path: Path, samples: Samples) -> None:
    try:
        np.savez(path, x=samples.x, y=samples.y)
    except OSError as error:
        raise file_error(error, path) from error
