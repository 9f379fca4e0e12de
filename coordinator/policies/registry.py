"""Policies by name: every entry point of the group ``venn.policies``, or FILE.py:NAME for one's own.

Only the coordinator's own user names a policy; a name never comes over the wire.
"""

import difflib
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from coordinator.engine.plan import Policy

GROUP = "venn.policies"


class PolicyError(ValueError):
    """No such policy, or what stands behind the name is none."""


def policy_names() -> list[str]:
    """The installed policies, by name."""
    return sorted(_installed())


def load_policy(name: str) -> Policy:
    """A new policy: ``name`` is an installed one, or FILE.py:NAME with NAME a class or a function without arguments.

    Raises PolicyError, which names the known ones.
    """
    file, separator, attribute = name.rpartition(":")
    if separator and file.endswith(".py"):
        return _made(name, lambda: _from_file(Path(file), attribute))
    point = _installed().get(name)
    if point is None:
        raise PolicyError(f"there is no policy {name!r}{_meant(name)}; known: {', '.join(policy_names())}")
    return _made(name, point.load)


def absolute(name: str) -> str:
    """FILE.py:NAME with an absolute path, to be named from another folder; any other name as it is."""
    file, colon, attribute = name.rpartition(":")
    return f"{Path(file).expanduser().absolute()}:{attribute}" if colon and file.endswith(".py") else name


def summary(name: str) -> str:
    """What the policy's own docstring says in its first line."""
    text = (load_policy(name).__doc__ or "").strip()
    return text.splitlines()[0] if text else ""


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), policy_names(), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _from_file(path: Path, attribute: str) -> Callable[[], object]:
    spec = importlib.util.spec_from_file_location(f"venn_policy_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise PolicyError(f"{path} is not a file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    if not hasattr(module, attribute):
        raise PolicyError(f"{path} has no {attribute}")
    made: Callable[[], object] = getattr(module, attribute)
    return made


def _made(name: str, load: Callable[[], Callable[[], object]]) -> Policy:
    # A policy is foreign code: whatever it raises while it is loaded is told as one line that names it.
    try:
        policy = load()()
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(f"policy {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(getattr(policy, "plan", None)) or not isinstance(getattr(policy, "name", None), str):
        raise PolicyError(f"policy {name!r} is a {type(policy).__name__} without `name` and `plan(view)`")
    return policy  # type: ignore[return-value]  # just checked, as far as it can be without calling it
