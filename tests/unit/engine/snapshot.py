"""The whole state as plain, comparable, JSON-ready values: two engines are equal if and only if their snapshots are.

Things are shown in full once and named by their id everywhere else. Heap entries are left out: they are hints.
"""

from collections import deque
from dataclasses import fields, is_dataclass
from fractions import Fraction
from types import MappingProxyType

from coordinator.engine.engine import Engine
from coordinator.engine.state import Device, Job, Lease, Request, Session
from coordinator.engine.supply import Supply

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

# No state, or shown below.
_APART = ("settings", "deadlines", "regions", "supply", "tiers", "effects", "fresh", "changed")


def snapshot(engine: Engine) -> dict[str, Plain]:
    world = engine.world
    state: dict[str, Plain] = {
        one.name: _plain(getattr(world, one.name), top=True) for one in fields(world) if one.name not in _APART
    }
    state["regions"] = {name: _plain(value) for name, value in vars(world.regions).items() if name[0] != "_"}
    state["supply"] = _counts(world.supply)
    state["tiers"] = {name: _plain(value) for name, value in vars(world.tiers).items() if name != "supply"}
    state["tier_supply"] = [_counts(supply) for supply in world.tiers.supply]
    return state


def _counts(supply: Supply) -> dict[str, Plain]:
    """``supply`` without what is kept of it by region: that is made when it is asked for."""
    return {name: _plain(value) for name, value in vars(supply).items() if not name.startswith("_by_region")}


def _plain(value: object, *, top: bool = False) -> Plain:
    """``top``: the values of a mapping are shown in full, even if they are things with an id."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Fraction():
            return str(value)
        case dict() | MappingProxyType():
            return {str(key): _whole(one) if top and is_dataclass(one) else _plain(one) for key, one in value.items()}
        case frozenset() | set():
            return sorted((_plain(one) for one in value), key=str)
        case list() | tuple() | deque():
            return [_plain(one) for one in value]
        case Device() | Request() | Job():
            return f"{type(value).__name__} {value.id}"
        case Session() | Lease():
            return f"{type(value).__name__} {value.seq}"
        case _:
            return _whole(value)


def _whole(value: object) -> Plain:
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} has no plain form")
    return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.compare}
