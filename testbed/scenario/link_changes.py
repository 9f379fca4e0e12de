"""How the limits beside ``limit`` are read in an entry of ``churn``: the keys that a fleet has for its link."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from testbed.churn.link_change import LinkChange
from testbed.profiles import load_profile
from testbed.profiles.model import LINK_FIELDS
from testbed.scenario.readers import as_duration, as_fraction, as_profile, as_rate
from testbed.scenario.wording import wrong
from venn.wire.errors import UsageError

PROFILE = "link"
KEYS = (PROFILE, *LINK_FIELDS)
MOST_LOSS = Fraction(99, 100)


def as_link_change(value: Mapping[str, object], info: ValidationInfo) -> LinkChange:
    """What stands in the entry itself goes before what the profile gives."""
    own = {key: value[key] for key in LINK_FIELDS if key in value}
    stated = {**(_of_profile(value[PROFILE], info) if PROFILE in value else {}), **own}
    if not stated:
        raise wrong("limit says not to what", "add e.g. link: 3g, or up: 500 kbit/s")
    read: dict[str, Any] = {}
    for key, written in stated.items():
        try:
            read[key] = _value(key, written, info)
        except ValueError as error:
            context = getattr(error, "context", None) or {}
            raise wrong(f"{key}: {context.get('message', error)}", context.get("fix", "")) from None
    return LinkChange(**read)


def _of_profile(stated: object, info: ValidationInfo) -> dict[str, object]:
    folder: Path = (info.context or {}).get("folder", Path())
    reference = as_profile(stated, info)
    try:
        profile = load_profile(reference, folder=folder)
    except UsageError as error:
        raise wrong(f"{PROFILE}: {error.message}", error.fix) from None
    if other := [key for key in profile.values if key not in LINK_FIELDS]:
        message = f"{PROFILE}: {reference} is a device and no link: it gives {other[0]}"
        raise wrong(message, "`venn profile list` shows links")
    return {key: value.value for key, value in profile.values.items()}


def _value(key: str, written: object, info: ValidationInfo) -> float | Fraction:
    if key in ("up", "down"):
        return as_rate(written, info)
    if key == "loss":
        return as_fraction(written, Fraction(0), MOST_LOSS, open_below=False)
    return as_duration(written, info, positive=False)
