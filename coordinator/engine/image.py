"""Images: the whole state of an engine as plain JSON values, and an engine made of them that goes on the same way.

An image is taken when the plan was forgotten (``JournalRotated``): a plan holds what a policy made of a view, and the
next one is made from the state alone. The state is a graph of a few classes, which are listed here and no others are
read. Each object stands once, under its number; wherever it is named its number stands. What is derived from the rest
(views, look-ups, the classes of capabilities met lately) is left out and made anew.

A value that is not plain is a list that begins with its kind: see ``_Writer.write``.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, cast

from coordinator.engine import lifecycle, model, regions, requirements, state
from coordinator.engine.deadlines import Kind
from coordinator.engine.engine import Engine
from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Policy
from coordinator.engine.profiles import Profile, Profiles
from coordinator.engine.record import RecordError, fraction_from_json
from coordinator.engine.supply import Supply
from coordinator.engine.tiers import Tiers
from coordinator.engine.world import World

_CLASSES: tuple[type, ...] = (
    state.Cooling,
    state.Stopping,
    state.Device,
    state.Session,
    state.Lease,
    state.Request,
    state.Job,
    regions.Group,
    regions.DeviceClass,
    regions.Region,
    regions.Regions,
    Supply,
    Tiers,
    Profile,
    Profiles,
    model.JobSpec,
    model.Workload,
    model.Asynchronous,
    requirements.Capabilities,
    requirements.AllDevices,
    requirements.Comparison,
    requirements.Every,
    requirements.Any,
    requirements.Not,
    requirements.Ids,
)
_ENUMS: tuple[type[Enum], ...] = (
    *(model.LeaseEnd, model.FailureReason, model.SessionEnd, model.AttemptEndReason, model.Outcome),
    *(model.StragglerRule, model.Repeat, model.ComeBackReason, model.Phase, model.AttemptStatus, model.JobEnd),
    *(lifecycle.DeviceState, lifecycle.LeaseState, lifecycle.RequestState, lifecycle.JobState),
)
# Attributes that are made anew, and what they begin with.
_DERIVED: Mapping[type, Mapping[str, object]] = {
    regions.Regions: {"_kinds": {}, "_views": None},
    Supply: {"_by_region": {}, "_by_region_of": (None, None)},
}
# Of the world: what is given to it, what is noted elsewhere, and what no image has.
_APART = frozenset({"settings", "deadlines", "plan", "changed", "effects"})

_LIST, _TUPLE, _DICT, _DEQUE, _SET, _FRACTION, _ENUM, _OBJECT, _PLAIN_LIST, _PLAIN_TUPLE = range(10)
_PLAIN = frozenset({int, float, str, bool, type(None)})
_NUMBERS = {kind: number for number, kind in enumerate(_CLASSES)}
_ENUM_NUMBERS = {kind: number for number, kind in enumerate(_ENUMS)}


def image_of(engine: Engine) -> dict[str, object]:
    """The image of an engine whose plan was forgotten and that has nothing to tell."""
    world, writer = engine.world, _Writer()
    values = {name: writer.write(getattr(world, name)) for name in _names(World) if name not in _APART}
    hints = [[int(kind), key, at] for kind, key, at in world.deadlines.hints()]
    return {"world": values, "deadlines": hints, "objects": writer.objects()}


def engine_of(image: Mapping[str, Any], settings: EngineSettings, policy: Policy) -> Engine:
    """An engine as it was when its image was taken. Raises RecordError where an image is none."""

    def fill(world: World) -> None:
        try:
            reader = _Reader(image["objects"])
            for name in _names(World):
                if name not in _APART:
                    setattr(world, name, reader.read(image["world"][name]))
            for kind, key, at in image["deadlines"]:
                world.deadlines.set(Kind(kind), key, at)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise RecordError(f"not an image of an engine: {type(error).__name__}: {str(error)[:80]}") from None
        world.changed = dict(world.open_requests)

    return Engine(settings, policy, fill)


def _names(kind: type) -> list[str]:
    """The attributes of an object of this class."""
    return [one.name for one in fields(kind)]


def _attributes(one: object) -> Iterator[tuple[str, object]]:
    kind = type(one)
    names = _names(kind) if is_dataclass(kind) else list(vars(one))
    derived = _DERIVED.get(kind, {})
    return ((name, getattr(one, name)) for name in names if name not in derived)


class _Writer:
    """Writes values, and numbers the objects that they name."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # by identity
        self._found: list[object] = []  # by number

    def objects(self) -> list[object]:
        """All objects that were named, with those that they name: [class, attribute, ...]."""
        written: list[object] = []
        while len(written) < len(self._found):
            one = self._found[len(written)]
            values = [self.write(value) for _, value in _attributes(one)]
            written.append([_NUMBERS[type(one)], *values])
        return written

    def write(self, value: object) -> object:
        """A value as JSON has it. Raises TypeError for what no image holds."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _NUMBERS:
            return [_OBJECT, self._number(value)]
        if kind in _ENUM_NUMBERS:
            return [_ENUM, _ENUM_NUMBERS[kind], cast(Enum, value).value]
        if kind is list or kind is tuple:
            many = cast("list[object] | tuple[object, ...]", value)
            if all(type(one) in _PLAIN for one in many):
                return [_PLAIN_LIST if kind is list else _PLAIN_TUPLE, *many]
            return [_LIST if kind is list else _TUPLE, *map(self.write, many)]
        if kind is dict or kind is MappingProxyType:
            items = cast(Mapping[object, object], value).items()
            return [_DICT, *(self.write(one) for item in items for one in item)]
        if kind is deque:
            waiting = cast("deque[object]", value)
            return [_DEQUE, waiting.maxlen, *map(self.write, waiting)]
        if kind is frozenset:
            return [_SET, *sorted(cast(frozenset[str], value))]
        if kind is Fraction:
            return [_FRACTION, str(value)]
        raise TypeError(f"no image holds a {kind.__name__}")

    def _number(self, one: object) -> int:
        number = self._numbers.get(id(one))
        if number is None:
            number = self._numbers[id(one)] = len(self._found)
            self._found.append(one)
        return number


class _Reader:
    """Reads values, each object once."""

    def __init__(self, objects: list[list[Any]]) -> None:
        kinds = [_CLASSES[one[0]] for one in objects]
        self._objects = [object.__new__(kind) for kind in kinds]
        names = {kind: self._names_of(kind) for kind in set(kinds)}
        for one, kind, values in zip(self._objects, kinds, objects, strict=True):
            for name, value in zip(names[kind], values[1:], strict=True):
                object.__setattr__(one, name, self.read(value))  # also of a frozen one
            for name, first in _DERIVED.get(kind, {}).items():
                setattr(one, name, first.copy() if isinstance(first, dict) else first)

    def read(self, value: Any) -> Any:
        """The value of its JSON."""
        if type(value) in _PLAIN:
            return value
        kind, *rest = value
        match kind:
            case 0:
                return [self.read(one) for one in rest]
            case 1:
                return tuple([self.read(one) for one in rest])
            case 2:
                keys, values = rest[::2], rest[1::2]
                return {self.read(key): self.read(one) for key, one in zip(keys, values, strict=True)}
            case 3:
                return deque([self.read(one) for one in rest[1:]], maxlen=rest[0])
            case 4:
                return frozenset(rest)
            case 5:
                return fraction_from_json(*rest)
            case 6:
                return _ENUMS[rest[0]](rest[1])
            case 7:
                return self._objects[rest[0]]
            case 8:
                return rest
            case 9:
                return tuple(rest)
            case _:
                raise ValueError(f"what is a value of kind {kind!r}?")

    @staticmethod
    def _names_of(kind: type) -> list[str]:
        """The attributes of a class, as they are written."""
        if is_dataclass(kind):
            return [name for name in _names(kind) if name not in _DERIVED.get(kind, {})]
        fresh: object = _FRESH[kind]
        return [name for name, _ in _attributes(fresh)]


_SETTINGS = EngineSettings(seed=0, policy="")
_FRESH: Mapping[type, object] = {
    regions.Regions: regions.Regions(1),
    Supply: Supply(_SETTINGS, 0.0),
    Tiers: Tiers(_SETTINGS, 0.0),
}
