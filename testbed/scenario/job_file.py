"""A job file looked at without running it: is it there, is it Python, does it define ``job``?

`venn job check` and the driver import it, which is the real test; this one costs nothing and comes before anything
is started.
"""

import ast
import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path

from venn.wire.notation import format_bytes

MOST_BYTES = 1_000_000  # of source


def problem_of(path: Path, *, runs_here: bool = False) -> tuple[str, str] | None:
    """What is wrong with it, and what to do; None: nothing that can be seen from outside. ``runs_here``: what it
    imports must be installed on this machine.
    """
    try:
        if path.is_dir():
            return f"{path} is a folder", "name the Python file in it"
        with path.open("rb") as file:
            source = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return f"there is no file {path}", "a relative path starts at the scenario's folder"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}", "give read permission"
    if len(source) > MOST_BYTES:
        return f"{path} is larger than {format_bytes(MOST_BYTES)}", "a job file holds code; keep data elsewhere"
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source, filename=str(path))
    except SyntaxError as error:
        return f"{path}:{error.lineno or 1}: is not Python: {error.msg}", "`venn job check` shows more"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{path} is not Python: {error}", "is it the right file?"
    if not any(_defines_job(node) for node in ast.walk(tree)):
        return f"{path} defines no job", "end it with job = Job(...)"
    for line, package in _imported(tree) if runs_here else ():
        if not _installed(package):
            return (
                f"{path}:{line}: needs the Python package {package}, which is not installed",
                f"pip install {package}",
            )
    return None


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and package of what it imports in any case; an import below ``try`` or ``if`` may be missing."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, each.name.partition(".")[0]) for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module.partition(".")[0]
            case _:
                pass  # no import


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is imported, and does not say where from
        return True


def _defines_job(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="job", ctx=ast.Store()):
            return True
        case ast.alias(name=name, asname=asname):
            return (asname or name) == "job"
        case _:
            return False
