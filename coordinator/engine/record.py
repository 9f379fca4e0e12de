"""Events, effects and facts as compact JSON values for the journal, and the digest by which two runs are compared.

A value is ``[name of its class, field, field, ...]`` in the order of the fields; nested values of a known class go
without the name. Fields that are added later have defaults, so that an older record can be read.

The codec of a class is made once, from its type hints. It writes text without a detour over lists, for half of what a
busy coordinator records is this.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import partial
from json.encoder import JSONEncoder, encode_basestring_ascii
from math import isfinite
from types import NoneType, UnionType
from typing import Literal, NewType, Union, assert_never, cast, get_args, get_origin, get_type_hints

from coordinator.engine.chance import mix
from coordinator.engine.effects import AcceptAttempt, Effect, EndAttempt, FillAttempt, OfferLease
from coordinator.engine.events import Event
from coordinator.engine.model import AttemptStatus, EngineSettings

Convert = Callable[[object], object]
Text = Callable[[object], str]


class RecordError(ValueError):
    """A record that cannot be read: it is damaged, or of another format."""


@dataclass(frozen=True, slots=True)
class _Codec:
    """How one class is written, with its name or without it, and read."""

    tagged: Text
    bare: Text
    read: Convert


class _Codecs(dict[type, _Codec]):
    """Made on demand."""

    def __missing__(self, kind: type) -> _Codec:
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        values = {f"one.{name}": _text(hints[name]) for name in names}
        bare, tagged = _list_text([], values), _list_text([f'"{kind.__name__}"'], values)
        readers = [_reader(hints[name]) for name in names]
        made = self[kind] = _Codec(tagged, bare, lambda record: kind(*_read_each(record, readers, strict=False)))
        return made


def text_of(record: object) -> str:
    """Write an event, an effect or a fact as JSON."""
    return _CODECS[record.__class__].tagged(record)


def texts_of(records: Iterable[Event | Effect]) -> str:
    """Write events or effects as a JSON list."""
    return f"[{','.join(map(text_of, records))}]"


def event_from_json(record: object) -> Event:
    """Read an event from its JSON. Raises RecordError."""
    return cast(Event, read_record(record, _EVENTS))


def effect_from_json(record: object) -> Effect:
    """Read an effect from its JSON. Raises RecordError."""
    return cast(Effect, read_record(record, _EFFECTS))


def read_record(record: object, kinds: Mapping[str, type]) -> object:
    """Read a record of one of these dataclasses, by name, from its JSON. Raises RecordError."""
    name = record[0] if isinstance(record, list) and record else None
    if not isinstance(record, list) or not isinstance(name, str) or name not in kinds:
        raise RecordError("not a record")
    try:
        return _CODECS[kinds[name]].read(record[1:])
    except (TypeError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise RecordError(f"{name} cannot be read: {str(error)[:80]}") from None


def settings_to_json(settings: EngineSettings) -> dict[str, object]:
    return asdict(settings)


def settings_from_json(record: Mapping[str, object]) -> EngineSettings:
    """Read the settings from its JSON. Raises RecordError."""
    make = cast(Callable[..., EngineSettings], EngineSettings)
    hints = get_type_hints(EngineSettings)
    try:
        return make(**{name: _reader(hints[name])(value) for name, value in record.items()})
    except (TypeError, ValueError, KeyError) as error:
        raise RecordError(f"settings cannot be read: {error}") from None


Told = OfferLease | AcceptAttempt | FillAttempt | EndAttempt  # effects that a digest is made of

# In place of a session: no session has such a number.
_OPENED, _FILLED, _CLOSED, _ABORTED = (2**64 - number for number in (1, 2, 3, 4))
_FLOAT, _BITS = struct.Struct("<d"), struct.Struct("<Q")


class Digest:
    """A running 64-bit digest of (time, session, request) of each lease and of each transition of a request."""

    def __init__(self, state: int = 0, latest: int = 0) -> None:
        self._state = state
        self._latest = latest  # request opened: an answer about an older one is no transition

    @property
    def state(self) -> tuple[int, int]:
        """What a digest is made of again that goes on from here."""
        return self._state, self._latest

    def update(self, now: float, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Told):
                self.add(now, effect)

    def add(self, now: float, effect: Told) -> None:
        what: int
        match effect:
            case OfferLease():
                what = effect.session
            case FillAttempt():
                what = _FILLED
            case EndAttempt():
                what = _CLOSED if effect.status is AttemptStatus.CLOSED else _ABORTED
            case AcceptAttempt() if effect.request <= self._latest:
                return
            case AcceptAttempt():
                self._latest, what = effect.request, _OPENED
            case _:
                assert_never(effect)
        (bits,) = _BITS.unpack(_FLOAT.pack(now))
        self._state = mix(mix(mix(self._state ^ bits) ^ what) ^ effect.request)

    def hex(self) -> str:
        return f"{self._state:016x}"


def _list_text(head: list[str], values: Mapping[str, Text | None]) -> Text:
    """A JSON list of ``head`` and expressions of ``one``: spelled out, they take a third of a loop's time."""
    known = {f"text{number}": text for number, text in enumerate(values.values())}
    said = (f"text{number}({value})" if text else value for number, (value, text) in enumerate(values.items()))
    parts = ",".join([*head, *(f"{{{each}}}" for each in said)])
    return cast(Text, eval(f"lambda one: f'[{parts}]'", known))  # our own names


def _text(hint: object) -> Text | None:
    """A field's value as JSON; None: ``str`` gives it."""
    plain = hint.__supertype__ if isinstance(hint, NewType) else hint
    origin, args = get_origin(plain), get_args(plain)
    if plain is int:
        return None
    if plain is bool:
        return lambda one: "true" if one else "false"
    if origin is Literal or (isinstance(plain, type) and issubclass(plain, str)):  # a StrEnum is a string
        return cast(Text, encode_basestring_ascii)
    if plain is float:
        return lambda one: str(one) if isfinite(cast(float, one)) else _to_json(one)
    if plain is Fraction:
        return lambda one: f'"{one}"'
    if isinstance(plain, type) and is_dataclass(plain):
        return _CODECS[plain].bare
    if origin in (Union, UnionType):
        return _union_text(args)
    if origin is tuple and args[-1] is not Ellipsis:
        return _list_text([], {f"one[{place}]": _text(member) for place, member in enumerate(args)})
    each = _text(args[-1] if isinstance(origin, type) and issubclass(origin, Mapping) else args[0]) or str
    if origin is tuple:
        return lambda many: f"[{','.join(map(each, cast(tuple[object, ...], many)))}]"
    if origin is frozenset:
        return lambda many: f"[{','.join(map(each, sorted(cast(frozenset[str], many))))}]"
    return lambda many: _mapping_text(cast(Mapping[str, object], many), each)


def _mapping_text(many: Mapping[str, object], each: Text) -> str:
    return f"{{{','.join(f'{encode_basestring_ascii(key)}:{each(one)}' for key, one in sorted(many.items()))}}}"


def _union_text(members: tuple[object, ...]) -> Text:
    """``X | None``, one of several classes (then with its name), or plain values."""
    text: Text = text_of if len(_classes(members)) > 1 else _to_json
    if len(members) == 2 and members[1] is type(None):
        text = _text(members[0]) or str
    return lambda one: "null" if one is None else text(one)


def _classes(members: tuple[object, ...]) -> dict[str, type]:
    return {one.__name__: one for one in members if isinstance(one, type) and is_dataclass(one)}


def _reader(hint: object) -> Convert:
    """How a field's value is made of its JSON; that raises ValueError or TypeError for what is something else."""
    hint = hint.__supertype__ if isinstance(hint, NewType) else hint
    origin, args = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return partial(_checked, _PLAIN[cast(type, hint)])
    if origin is Literal:
        return partial(_member, args)
    if hint is Fraction:
        return fraction_from_json
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _CODECS[hint].read
    if origin in (Union, UnionType):
        classes = _classes(args)
        if len(classes) > 1:
            return lambda one: read_record(one, classes)
        if all(arg in _PLAIN or arg is NoneType for arg in args):
            return partial(_checked, tuple(kind for arg in args for kind in _PLAIN.get(arg, (NoneType,))))
        some = _reader(args[0])
        return lambda one: None if one is None else some(one)
    if origin is tuple and args[-1] is not Ellipsis:
        readers = [_reader(arg) for arg in args]
        return lambda many: tuple(_read_each(many, readers, strict=True))
    if origin in (tuple, frozenset):
        each, whole = _reader(args[0]), cast(Callable[[Iterable[object]], object], origin)
        return lambda many: whole(map(each, _list(many)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        each = _reader(args[1])
        return lambda many: {key: each(one) for key, one in _object(many).items()}
    raise TypeError(f"no codec for {hint}")


_PLAIN: Mapping[type, tuple[type, ...]] = {int: (int,), float: (float, int), str: (str,), bool: (bool,)}
_FRACTION = re.compile(r"-?[0-9]{1,40}(/[0-9]{1,40})?")  # as it is written; another could have a huge exponent


def _checked(kinds: tuple[type, ...], one: object) -> object:
    if type(one) not in kinds:
        raise TypeError(f"{type(one).__name__} in place of {kinds[0].__name__}")
    return one


def _member(members: tuple[object, ...], one: object) -> object:
    if one not in members:
        raise ValueError("not one of the values that there are")
    return one


def fraction_from_json(one: object) -> Fraction:
    """Read a fraction as it is written, 4/5. Raises ValueError, ZeroDivisionError."""
    if not isinstance(one, str) or not _FRACTION.fullmatch(one):
        raise ValueError("not a fraction")
    return Fraction(one)


def _list(many: object) -> list[object]:
    return cast(list[object], _checked((list,), many))


def _object(many: object) -> dict[str, object]:
    return cast(dict[str, object], _checked((dict,), many))


def _read_each(record: object, readers: list[Convert], *, strict: bool) -> Iterator[object]:
    return (read(one) for one, read in zip(_list(record), readers, strict=strict))


_to_json = JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_CODECS = _Codecs()
_EVENTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Event)}
_EFFECTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Effect)}
