"""Events and effects as compact JSON values for the journal, and the digest by which two runs are compared.

A value is ``[name of its class, field, field, ...]`` in the order of the fields; nested values of a known class go
without the name. Fields that are added later have defaults, so that an older record can be read.

The codec of a class is made once, from its type hints; most fields pass as they are.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from json.encoder import JSONEncoder, encode_basestring_ascii
from math import isfinite
from operator import attrgetter
from types import UnionType
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
    """How one class is written and read. ``text`` is ``encode`` with its tag, as JSON."""

    make: Callable[..., object]
    text: Text
    values: Callable[[object], tuple[object, ...]]  # of the fields, in order
    encoders: tuple[tuple[int, Convert], ...]  # (field, its conversion) where there is one
    decoders: tuple[Convert | None, ...]

    def encode(self, value: object) -> list[object]:
        result = list(self.values(value))
        for index, convert in self.encoders:
            result[index] = convert(result[index])
        return result

    def decode(self, record: list[object]) -> object:
        return self.make(
            *(convert(one) if convert else one for one, convert in zip(record, self.decoders, strict=False))
        )


class _Codecs(dict[type, _Codec]):
    """Made on demand."""

    def __missing__(self, kind: type) -> _Codec:
        made = self[kind] = _make_codec(kind)
        return made


def text_of(record: Event | Effect) -> str:
    """Write an event or an effect as JSON, without a detour over lists: a busy coordinator does little else."""
    return _CODECS[record.__class__].text(record)


def event_to_json(event: Event) -> list[object]:
    return _tagged(event)


def event_from_json(record: object) -> Event:
    """Read an event from its JSON. Raises RecordError."""
    return cast(Event, _untag(record, _EVENTS))


def effect_to_json(effect: Effect) -> list[object]:
    return _tagged(effect)


def effect_from_json(record: object) -> Effect:
    """Read an effect from its JSON. Raises RecordError."""
    return cast(Effect, _untag(record, _EFFECTS))


def settings_to_json(settings: EngineSettings) -> dict[str, object]:
    return asdict(settings)


def settings_from_json(record: Mapping[str, object]) -> EngineSettings:
    """Read the settings from its JSON. Raises RecordError."""
    make = cast(Callable[..., EngineSettings], EngineSettings)
    try:
        return make(**record)
    except TypeError as error:
        raise RecordError(f"settings cannot be read: {error}") from None


Told = OfferLease | AcceptAttempt | FillAttempt | EndAttempt  # effects that a digest is made of

# In place of a session: no session has such a number.
_OPENED, _FILLED, _CLOSED, _ABORTED = (2**64 - number for number in (1, 2, 3, 4))
_FLOAT, _BITS = struct.Struct("<d"), struct.Struct("<Q")


class Digest:
    """A running 64-bit digest of (time, session, request) of each lease and of each transition of a request."""

    def __init__(self) -> None:
        self._state = 0
        self._latest = 0  # request opened: an answer about an older one is no transition

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


def _tagged(value: object) -> list[object]:
    kind = type(value)
    return [kind.__name__, *_CODECS[kind].encode(value)]


def _untag(record: object, kinds: Mapping[str, type]) -> object:
    if not isinstance(record, list) or not record or record[0] not in kinds:
        raise RecordError(f"not a record: {str(record)[:80]}")
    try:
        return _CODECS[kinds[record[0]]].decode(record[1:])
    except (TypeError, ValueError, KeyError) as error:
        raise RecordError(f"{record[0]} cannot be read: {error}") from None


def _make_codec(kind: type) -> _Codec:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    conversions = [_conversion(hints[name]) for name in names]
    return _Codec(
        make=kind,
        text=_list_text([f'"{kind.__name__}"'], {f"one.{name}": _text(hints[name]) for name in names}),
        values=_values(names),
        encoders=tuple((index, encode) for index, (encode, _) in enumerate(conversions) if encode),
        decoders=tuple(decode for _, decode in conversions),
    )


def _list_text(head: list[str], values: Mapping[str, Text | None]) -> Text:
    """A JSON list of ``head`` and expressions of ``one``: spelled out, they take a third of a loop's time."""
    known = {f"text{number}": text for number, text in enumerate(values.values())}
    said = (f"text{number}({value})" if text else value for number, (value, text) in enumerate(values.items()))
    parts = ",".join([*head, *(f"{{{each}}}" for each in said)])
    return cast(Text, eval(f"lambda one: f'[{parts}]'", known))  # our own names


def _text(hint: object) -> Text | None:
    """A field's value as JSON; None: ``str`` gives it."""
    plain = hint.__supertype__ if isinstance(hint, NewType) else hint
    if plain is int:
        return None
    if isinstance(plain, type) and issubclass(plain, str):  # a StrEnum is a string
        return cast(Text, encode_basestring_ascii)
    if plain is float:
        return lambda one: str(one) if isfinite(cast(float, one)) else _to_json(one)
    members = get_args(hint)
    if get_origin(hint) in (Union, UnionType) and len(members) == 2 and members[1] is type(None):
        text = _text(members[0]) or str
        return lambda one: "null" if one is None else text(one)
    if get_origin(hint) is tuple and members[-1] is Ellipsis:
        each = _text(members[0]) or str
        return lambda many: f"[{','.join(map(each, cast(tuple[object, ...], many)))}]"
    if get_origin(hint) is tuple:
        return _list_text([], {f"one[{place}]": _text(member) for place, member in enumerate(members)})
    encode, _ = _conversion(hint)
    return _to_json if encode is None else lambda one: _to_json(encode(one))


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    if not names:
        return lambda value: ()
    get = attrgetter(*names)
    return (lambda value: (get(value),)) if len(names) == 1 else get


def _conversion(hint: object) -> tuple[Convert | None, Convert | None]:
    """(to JSON, from JSON) of a type; None: as it is."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType) or hint in (int, float, str, bool) or origin is Literal:
        return None, None
    if hint is Fraction:
        return str, lambda one: Fraction(cast(str, one))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return None, hint  # a StrEnum is a string
    if isinstance(hint, type) and is_dataclass(hint):
        codec = _CODECS[hint]
        return codec.encode, lambda one: codec.decode(cast(list[object], one))
    if origin in (Union, UnionType):
        return _union(tuple(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return _sequence(args)
    if origin is frozenset:
        return lambda one: sorted(cast(frozenset[str], one)), lambda one: frozenset(cast(list[str], one))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*_conversion(args[1]))
    raise TypeError(f"no codec for {hint}")


def _union(members: tuple[object, ...]) -> tuple[Convert | None, Convert | None]:
    """``X | None``, one of several classes (then tagged), or plain values."""
    classes = {one.__name__: one for one in members if isinstance(one, type) and is_dataclass(one)}
    if len(classes) > 1:
        return _tagged, lambda one: _untag(one, classes)
    if len(members) > 1:
        return None, None
    encode, decode = _conversion(members[0])
    return _optional(encode), _optional(decode)


def _optional(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda one: None if one is None else convert(one)


def _sequence(args: tuple[object, ...]) -> tuple[Convert, Convert]:
    """``tuple[X, ...]`` or ``tuple[X, Y]``."""
    if args[-1] is Ellipsis:
        encode, decode = _conversion(args[0])
        return (
            lambda many: [encode(one) if encode else one for one in cast(tuple[object, ...], many)],
            lambda many: tuple(decode(one) if decode else one for one in cast(list[object], many)),
        )
    pairs = [_conversion(arg) for arg in args]
    return (
        lambda many: [
            to(one) if to else one for one, (to, _) in zip(cast(tuple[object, ...], many), pairs, strict=True)
        ],
        lambda many: tuple(
            of(one) if of else one for one, (_, of) in zip(cast(list[object], many), pairs, strict=True)
        ),
    )


def _mapping(encode: Convert | None, decode: Convert | None) -> tuple[Convert, Convert]:
    return (
        lambda many: {
            key: encode(one) if encode else one for key, one in sorted(cast(Mapping[str, object], many).items())
        },
        lambda many: {key: decode(one) if decode else one for key, one in cast(Mapping[str, object], many).items()},
    )


_to_json = JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_CODECS = _Codecs()
_EVENTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Event)}
_EFFECTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Effect)}
