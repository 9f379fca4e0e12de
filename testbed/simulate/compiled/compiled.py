"""Compiled functions: by Numba where it is installed, else the very same functions, only slower.

What is compiled keeps to arrays, integers and elementwise + - * / of floats, without fast-math, so that both ways give
the same numbers. Unsigned 64-bit numbers wrap around in ``mixed``, and nowhere else.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from time import time
from types import FunctionType
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.chance import mix

try:
    import numba
except ImportError:
    numba = None  # type: ignore[assignment]  # a module or nothing

Function = TypeVar("Function", bound=Callable[..., object])

COMPILES = numba is not None and not numba.config.DISABLE_JIT  # type: ignore[attr-defined]  # read from the environment
_KEPT_S = 30 * 86_400.0


def _compiler(**options: bool) -> Callable[[Function], Function]:
    make = cast(Callable[..., Callable[[Function], Function]], numba.njit)  # its types leave out these options

    def stamped(function: Function) -> Function:
        made = make(cache=True, no_cfunc_wrapper=True, **options)(function)
        kept = vars(made)["_cache"]
        # Numba looks at the age of a function's own file, and not of those whose functions and constants went into it.
        kept._cache_file._source_stamp = _stamp()
        if (folder := _folder()) is not None:
            files = import_module("numba.core.caching").IndexDataCacheFile
            kept._cache_file = files(str(folder), kept._impl.filename_base, _stamp())
        return made

    return stamped


def sources() -> list[Path]:
    """Every file that compiled code can be made of."""
    packages = ("testbed.simulate", "testbed.world", "coordinator.engine", "coordinator.policies")
    folders = (Path(folder) for package in packages for folder in import_module(package).__path__)
    return [file for folder in folders for file in sorted(folder.rglob("*.py"))]


@cache
def _stamp() -> str:
    """A digest of ``sources``."""
    digest = sha256()
    for file in sources():
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _folder() -> Path | None:
    """The folder of what this user has compiled of this source, wherever it is installed; None: nothing can be written
    there, and it lies beside the source.
    """
    caches = numba.config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME")  # type: ignore[attr-defined]
    try:
        folder = (Path(caches) if caches else Path.home() / ".cache") / "venn"
        folder /= f"numba-{numba.__version__}-{_stamp()[:16]}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)  # it is used
        _forget_unused(folder.parent)
    except (OSError, RuntimeError):  # there is no home
        return None
    return folder if os.access(folder, os.W_OK) else None


def _forget_unused(caches: Path) -> None:
    """Remove what was compiled of other sources and has not been used for a month. Others may be at it, too."""
    for folder in caches.glob("numba-*"):
        with suppress(OSError):
            if folder.stat().st_mtime < time() - _KEPT_S:
                rmtree(folder, ignore_errors=True)


def is_compiled(function: Callable[..., object]) -> bool:
    """Whether a call of this ``entry`` need not wait for the compiler: it was called before, or its code is kept."""
    return bool(vars(function)["overloads"] or vars(function)["_cache"]._cache_file._load_index())


def compiled(function: Function) -> Function:
    """Compiled at its first call, or read from what the user has kept; for other compiled functions to call."""
    if not COMPILES:
        return function
    return _compiler(no_cpython_wrapper=True)(function)


def compiled_with(function: Function, *others: Callable[..., object]) -> Function:
    """The same for a function that calls ``others`` in their uncompiled form."""
    if not COMPILES:
        return function
    known = function.__globals__ | {other.__name__: other for other in others}
    made = FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return compiled(cast(Function, made))


def entry(function: Function) -> Function:
    """The same for the one function that Python calls. Each way in costs as much to compile as many functions do."""
    if not COMPILES:
        return function
    return _compiler()(function)


def plain(function: Function) -> Function:
    """The function as it is written, for Python to call now and then. It must not call compiled functions itself."""
    return cast(Function, getattr(function, "py_func", function))


def _mixed_exactly(value: np.uint64) -> np.uint64:
    return np.uint64(mix(int(value)))  # NumPy warns where one of its numbers wraps around


mixed = compiled(mix) if COMPILES else _mixed_exactly


def _fetch_nothing(table: NDArray[np.generic], row: int) -> None:
    """What is compiled asks for a row of a table before it needs it; nothing else gains by that."""


_Fetch = Callable[[NDArray[np.generic], int], None]
fetch = cast(_Fetch, import_module("testbed.simulate.compiled.addresses").fetch) if COMPILES else _fetch_nothing
