"""Policies by name: every entry point of the group ``venn.policies``, or FILE.py:NAME for one's own.

Parameters may follow either, ``venn(fairness=2; tiers=1)``: the keyword arguments of what makes the policy, and
``spares``, which every policy has.

Only the coordinator's own user names a file; its name never comes over the wire.
"""

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from coordinator.engine.plan import Policy
from coordinator.policies.parameters import PolicyError, arguments, pairs
from coordinator.policies.spares import Spares, WithSpares, spares_of

__all__ = ["PolicyError", "absolute", "in_file", "load_policy", "policy_names", "split", "summary", "tiers_of"]

GROUP = "venn.policies"
TIERS = 3  # that devices are cut into for a policy that does not say
MOST_TIERS = 16
SPARES = "spares"


def policy_names() -> list[str]:
    """The installed policies, by name."""
    return sorted(_installed())


def load_policy(name: str) -> Policy:
    """A new policy: ``name`` is an installed one, or FILE.py:NAME with NAME a class or a function; then parameters.

    Raises PolicyError, which names the known ones.
    """
    base, parameters = split(name)
    file, attribute = in_file(base)
    if file is not None:
        return _made(name, lambda: _from_file(file, attribute), parameters)
    point = _installed().get(base)
    if point is None:
        raise PolicyError(f"there is no policy {base!r}; {_meant(base)} {', '.join(policy_names())}")
    return _made(name, point.load, parameters)


def split(name: str) -> tuple[str, str]:
    """The name and what stands in brackets at its end: ``venn(fairness=2)`` is (``venn``, ``fairness=2``)."""
    name = name.strip()
    file_ends = name.find(".py:") + 1  # a folder may have brackets in its name
    start = name.find("(", file_ends)
    if start < 0 or not name.endswith(")"):
        return name, ""
    return name[:start].rstrip(), name[start + 1 : -1]


def in_file(base: str) -> tuple[Path | None, str]:
    """(FILE.py, NAME) of FILE.py:NAME; (None, the name) of an installed one. Without parameters."""
    file, colon, attribute = base.rpartition(":")
    return (Path(file), attribute) if colon and file.endswith(".py") else (None, base)


def absolute(name: str) -> str:
    """FILE.py:NAME with an absolute path, to be named from another folder; any other name as it is."""
    base, _ = split(name)
    file, attribute = in_file(base)
    if file is None:
        return name
    return f"{file.expanduser().absolute()}:{attribute}{name.strip()[len(base) :]}"


def summary(name: str) -> str:
    """The first line of the policy's own docstring."""
    text = (load_policy(name).__doc__ or "").strip()
    return text.splitlines()[0] if text else ""


def tiers_of(name: str) -> int:
    """How many tiers the engine is to cut devices into: the policy's parameter ``tiers``, or 3."""
    try:
        value = pairs(split(name)[1]).get("tiers", "")
    except PolicyError:  # told when it is made
        value = ""
    return max(1, min(int(value), MOST_TIERS)) if value.isdecimal() else TIERS


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), policy_names(), n=1)
    return f"did you mean {close[0]}? Known are" if close else "known are"


def _from_file(path: Path, attribute: str) -> Callable[..., object]:
    spec = importlib.util.spec_from_file_location(f"venn_policy_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise PolicyError(f"{path} is not a file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    if not attribute:
        raise PolicyError(f"{path}: names no policy of the file; write {path}:NAME")
    if not hasattr(module, attribute):
        raise PolicyError(f"{path} has no {attribute}")
    made: Callable[..., object] = getattr(module, attribute)
    return made


def _made(name: str, load: Callable[[], Callable[..., object]], parameters: str) -> Policy:
    # A policy is foreign code: whatever it raises while it is loaded is told as one line that names it.
    try:
        policy = _with_parameters(load(), parameters)
    except PolicyError as error:
        raise (PolicyError(f"policy {name!r}: {error}") if parameters else error) from None
    except Exception as error:
        if parameters and isinstance(error, ValueError):  # about a value, in the policy's own words
            raise PolicyError(f"policy {name!r}: {error}") from error
        raise PolicyError(f"policy {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(getattr(policy, "plan", None)) or not isinstance(getattr(policy, "name", None), str):
        raise PolicyError(f"policy {name!r} is of type {type(policy).__name__}, without `name` and `plan(view)`")
    return policy  # type: ignore[return-value]  # just checked, as far as it can be without calling it


def _with_parameters(make: Callable[..., object], text: str) -> object:
    """Make a policy with its parameters. A policy without ``spares`` of its own is followed with it."""
    texts = pairs(text)
    own = SPARES in inspect.signature(make).parameters
    spares = Spares.WITH if own else spares_of(texts.pop(SPARES, Spares.WITH))
    policy = make(**arguments(make, texts, SPARES))
    return policy if spares is Spares.WITH else WithSpares(cast(Policy, policy), spares)
