"""Policies by name, and errors of a policy's code: told with the plan that it was making."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from coordinator.engine.engine import Engine
from coordinator.engine.lifecycle import InvariantError, PlanError
from coordinator.engine.plan import Policy, View
from coordinator.policies.registry import PolicyError, load_policy
from venn.wire.errors import UsageError, VennError

FIX = "correct it, or take another policy"

T = TypeVar("T")


def policy_of(name: str, where: str = "policy") -> Policy:
    """Load a policy by its name or FILE.py:NAME. Raises UsageError, which names the known policies."""
    try:
        return load_policy(name)
    except PolicyError as error:
        raise UsageError("POLICY", str(error), where=where, fix="see: venn policy list") from error


@contextmanager
def told_with_its_plan(name: str) -> Iterator[None]:
    """Turns what the policy raises into a UsageError that names the plan; what is not its fault passes."""
    try:
        yield
    except PlanError as error:
        raise UsageError("PLAN", str(error), where=name, fix=FIX) from error
    except InvariantError as error:
        engine = _in(error.__traceback__, Engine)
        if engine is None or not _is_foreign(name):
            raise
        message = f"broke an invariant with plan {engine.plan_number}, at {engine.now:.3f} s: {error}"
        raise UsageError("INVARIANT", message, where=name, fix=FIX) from error
    except VennError:
        raise
    except Exception as error:
        view = _view_in(error.__traceback__)
        if view is None:
            raise
        message = f"failed in plan {view.plan_number}, at {view.now:.3f} s, open requests: {len(view.requests)}: "
        raise UsageError("POLICY_FAILED", f"{message}{type(error).__name__}: {error}", where=name, fix=FIX) from error


def _is_foreign(name: str) -> bool:
    """Whether it is somebody's FILE.py:NAME: what an installed policy breaks is our bug."""
    return ".py:" in name


def _view_in(trace: TracebackType | None) -> View | None:
    """The view that the policy was given, if the error came from its ``plan``."""
    return _in(trace, View, function="plan")


def _in(trace: TracebackType | None, kind: type[T], function: str = "") -> T | None:
    """The first local variable of this kind in the frames that an error came through."""
    while trace is not None:
        frame = trace.tb_frame
        if function in ("", frame.f_code.co_name):
            for value in frame.f_locals.values():
                if isinstance(value, kind):
                    return value
        trace = trace.tb_next
    return None
