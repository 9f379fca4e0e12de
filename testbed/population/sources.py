"""Data sets to be split: samples ``x`` (one per row) and their classes ``y``."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from venn.wire.errors import UsageError
from venn.wire.text import did_you_mean

DIGITS = "sklearn-digits"


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
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
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Samples(arrays["x"], arrays["y"])
    except OSError as error:
        raise UsageError("SOURCE", f"cannot be read: {error.strerror or error}", where=str(path), fix=fix) from error
    except KeyError as error:
        raise UsageError("SOURCE", "has no arrays x and y", where=str(path), fix=fix) from error
    except (ValueError, BadZipFile, TypeError, EOFError) as error:
        raise UsageError("SOURCE", f"is no data set: {error}", where=str(path), fix=fix) from error
