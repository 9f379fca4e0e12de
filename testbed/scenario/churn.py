"""Entries of the key ``churn``: one verb with its selector, its times, and for ``limit`` the keys that a link has."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from testbed.scenario.errors import known, shown, wrong
from testbed.scenario.readers import (
    MOST_LOSS,
    Reader,
    above_zero,
    as_duration,
    as_fraction,
    as_profile,
    as_rate,
    folder_of,
)
from testbed.world.limits import LINK
from testbed.world.profiles import load_profile
from testbed.world.timeline import ENDLESS, GENERATORS, MOMENTS, Entry, LinkChange, Verb
from venn.wire.errors import UsageError
from venn.wire.requirements import PROGRAMS, Rate, Selector, parse_rate_of, parse_selector

PROFILE = "link"
KEYS = (PROFILE, *LINK)
EXAMPLE = "{at: 30s, crash: 25% of flagship}"
_TIMES = ("at", "from", "to", "for")
_ALSO = {"kill": "crash", "restart": "crash", "pause": "suspend", "stop": "suspend", "cut": "disconnect"}


def as_entry(value: object, info: ValidationInfo) -> Entry:
    """Reads an entry: one verb with its selector, and its times."""
    if isinstance(value, Entry):
        return value
    if not isinstance(value, Mapping):
        raise wrong(f"{shown(value)} is not an entry of a timeline", f"write e.g. {EXAMPLE}")
    verb = _verb(value)
    of = _selector(verb, value[verb.value])
    times = {
        key: _read(key, above_zero if key == "for" else as_duration, value[key], info) for key in _TIMES if key in value
    }
    _check_times(verb, times)
    change = _link_change(value, info) if verb is Verb.LIMIT else None
    return Entry(verb, of, times.get("at", times.get("from", 0.0)), times.get("to"), times.get("for"), change)


def _verb(value: Mapping[str, object]) -> Verb:
    words = [key for key in value if key not in (*_TIMES, *KEYS)]
    for word in words:
        if word not in set(Verb):
            also = _ALSO.get(word)
            raise wrong(f"'{word}' is not a verb", f"did you mean {also}?" if also else known(word, Verb))
    if len(words) != 1:
        told = f"has the verbs {' and '.join(words)}" if words else "has no verb"
        raise wrong(f"{told}, and an entry has exactly one", f"write e.g. {EXAMPLE}")
    changes = [key for key in value if key in KEYS]
    if changes and words[0] != Verb.LIMIT:
        raise wrong(
            f"{changes[0]} has no meaning with {words[0]}", f"write limit: {value[words[0]]} in an entry of its own"
        )
    return Verb(words[0])


def _selector(verb: Verb, text: object) -> Selector | Rate:
    try:
        of = parse_rate_of(text) if verb is Verb.CHURN else parse_selector(text)
    except UsageError as error:
        raise wrong(f"{verb}: {error.message}", error.fix) from None
    if isinstance(of, Selector) and of.whom in PROGRAMS:
        _check_program(verb, of)
    return of


def _check_program(verb: Verb, of: Selector) -> None:
    """What a verb does to a program that is no device."""
    if verb not in (Verb.CRASH, Verb.SUSPEND):
        raise wrong(f"{verb}: has no meaning for {of}", "a program can crash or be suspended")


def _read(key: str, read: Reader, value: object, info: ValidationInfo) -> Any:
    """What ``read`` makes of the value of a key; what is wrong with it is told with the key."""
    try:
        return read(value, info)
    except PydanticCustomError as error:
        context = error.context or {}
        raise wrong(f"{key}: {context['message']}", context["fix"]) from None


def _check_times(verb: Verb, times: Mapping[str, float]) -> None:
    over = "from" in times or "to" in times
    if "at" in times and over:
        raise wrong("has both at and from or to", "write at for a moment, from and to for a time")
    if "at" not in times and not over:
        raise wrong("does not say when", "add at: 30s, or from: 30s, to: 60s")
    if over and not {"from", "to"} <= times.keys():
        raise wrong(f"has no {'to' if 'from' in times else 'from'}", "from and to go together")
    if over and times["to"] <= times["from"]:
        raise wrong("to is not after from", "make to later than from")
    if verb in GENERATORS and not over:
        raise wrong(f"{verb} needs a time span", "write from: 30s, to: 60s in place of at")
    if verb in MOMENTS and "for" in times:
        raise wrong(f"for: {verb} has no duration", "remove for")
    if "for" not in times and verb not in (*ENDLESS, *MOMENTS):
        raise wrong(f"{verb} does not say for how long", "add e.g. for: 5s")
    if verb in (Verb.FLAP, Verb.DIURNAL) and times["for"] > times["to"] - times["from"]:
        raise wrong("for is longer than the time between from and to", "make it shorter")


def _link_change(value: Mapping[str, object], info: ValidationInfo) -> LinkChange:
    """What stands in the entry itself goes before what the profile gives."""
    own = {key: value[key] for key in LINK if key in value}
    stated = {**(_of_profile(value[PROFILE], info) if PROFILE in value else {}), **own}
    if not stated:
        raise wrong("limit does not say the new limits", "add e.g. link: 3g, or up: 500 kbit/s")
    return LinkChange(**{key: _read(key, _LINK.get(key, as_duration), each, info) for key, each in stated.items()})


def _of_profile(stated: object, info: ValidationInfo) -> dict[str, object]:
    reference = as_profile(stated, info)
    try:
        profile = load_profile(reference, folder=folder_of(info))
    except UsageError as error:
        raise wrong(f"{PROFILE}: {error.message}", error.fix) from None
    if other := [key for key in profile.values if key not in LINK]:
        message = f"{PROFILE}: {reference} is a device and not a link: it gives {other[0]}"
        raise wrong(message, "`venn profile list` shows links")
    return {key: value.value for key, value in profile.values.items()}


def _loss(value: object, info: ValidationInfo) -> Fraction:
    return as_fraction(value, MOST_LOSS)


_LINK: dict[str, Reader] = {"up": as_rate, "down": as_rate, "loss": _loss}
