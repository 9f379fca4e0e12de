"""Device profiles: how fast a kind of device and its link are, in absolute units, each value with its source.

A file holds the values of one profile. It takes over those of another that it extends, then those of its link.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError

from testbed.world.limits import LINK
from venn.wire.errors import UsageError
from venn.wire.notation import (
    format_bytes,
    parse_bytes,
    parse_distribution,
    parse_duration,
    parse_fraction,
    parse_number,
    parse_rate,
)
from venn.wire.text import did_you_mean, printable

Plain = str | int | float


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value as it is written, in the notation of scenarios, and where it comes from."""

    value: Plain
    source: str  # empty: not stated
    profile: str  # that states it: this one, one that it extends, or its link


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of device, or of link, with all that it takes over from others."""

    name: str
    about: str
    extends: str | None
    link: str | None  # the profile of its link; None: it is not limited, or this is a link
    values: Mapping[str, Sourced]  # by key of a fleet, in the order of FIELDS


def _positive(parse: Callable[[Plain], float], what: str) -> Callable[[Plain], float]:
    def read(value: Plain) -> float:
        number = parse(value)
        if number <= 0:
            raise UsageError("PROFILE", f"{value!r} is not above 0", fix=f"write e.g. {what}")
        return number

    return read


def _loss(value: Plain) -> float:
    fraction = float(parse_fraction(value))
    if fraction >= 1:
        raise UsageError("PROFILE", f"{value!r} leaves nothing", fix="write e.g. 1%")
    return fraction


def _score(value: Plain) -> float:
    return _least(parse_distribution(value, "number").mean)


def _least(number: float) -> float:
    if number <= 0:
        raise UsageError("PROFILE", f"{number:g} is not above 0", fix="write e.g. 1")
    return number


def _memory(value: Plain) -> float:
    return _least(parse_distribution(value, "bytes").mean)


# The keys of a fleet that a profile may give, with what checks them.
FIELDS: Mapping[str, Callable[[Plain], float]] = {
    "cpu": _score,
    "memory": _memory,
    "cores": _positive(parse_number, "0.4"),
    "memory_limit": _positive(parse_bytes, "512 MB"),
    "up": _positive(parse_rate, "4 Mbit/s"),
    "down": _positive(parse_rate, "4 Mbit/s"),
    "delay": parse_duration,
    "jitter": parse_duration,
    "loss": _loss,
}
CAPABILITIES = ("cpu", "memory")  # what a device reports; the others are limits


HERE = Path(__file__).with_name("files")
FOLDERS = {"device": HERE / "devices", "link": HERE / "links"}
MOST_BYTES = 100_000
DEEPEST = 10  # profiles that extend each other, and values in one
_HEAD = ("about", "extends", "link")


@cache
def packaged_profiles() -> Mapping[str, Path]:
    """The files of those that come with the testbed, by name; devices first, then links."""
    return {path.stem: path for folder in FOLDERS.values() for path in sorted(folder.glob("*.yaml"))}


def load_profile(reference: str, *, folder: Path | None = None) -> Profile:
    """The profile of a name, or of a file (``mine.yaml``; a relative path starts at ``folder``).

    Raises UsageError PROFILE: there is none, or something in it, or in one that it extends, is wrong.
    """
    return _load(reference, folder or Path(), ())


def is_link(profile: Profile) -> bool:
    """Whether it says nothing but what a link is."""
    return set(profile.values) <= set(LINK)


def file_of(reference: str, folder: Path) -> Path:
    """The file of a profile: a path relative to ``folder``, or a packaged one by name. Raises UsageError PROFILE."""
    if reference.endswith((".yaml", ".yml")):
        return (folder / Path(reference).expanduser()).absolute()
    known = packaged_profiles()
    if reference not in known:
        fix = did_you_mean(reference, known) or "`venn profile list` shows all; a file's name ends in .yaml"
        raise UsageError("PROFILE", f"there is no profile {printable(reference, 60)!r}", fix=fix)
    return known[reference]


def _load(reference: str, folder: Path, above: tuple[Path, ...]) -> Profile:
    path = file_of(reference, folder)
    if path in above or len(above) >= DEEPEST:
        raise UsageError("PROFILE", "extends itself", where=str(above[0]), fix="remove extends from one of them")
    document = _read(path)
    name, about = path.stem, document.get("about", "")
    extends, link = _reference(document, "extends", path), _reference(document, "link", path)
    values: dict[str, Sourced] = {}
    if extends is not None:
        base = _load(extends, path.parent, (*above, path))
        values, about, link = dict(base.values), about or base.about, link or base.link
    if link is not None and "link" in document:
        values = {key: value for key, value in values.items() if key not in LINK}
    if link is not None:
        own_link = _load(link, path.parent, (*above, path))
        values = {**own_link.values, **values}
    values |= {key: _value(key, stated, path) for key, stated in document.items() if key not in _HEAD}
    return Profile(name, str(about), extends, link, {key: values[key] for key in FIELDS if key in values})


class _Loader(yaml.SafeLoader):
    """Reads plain values without aliases, which could make much of a small file, and few levels deep."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # its stub has no types
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "an alias has no meaning in a profile", mark)
        if self._depth > DEEPEST:
            raise ComposerError(None, None, f"nested deeper than {DEEPEST} levels", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise _wrong(path, f"is larger than {format_bytes(MOST_BYTES)}", "is it the right file?")
        document = yaml.load(text, _Loader)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}", "name a file, or see `venn profile list`") from None
    except (yaml.YAMLError, ValueError) as error:  # a ValueError: of a date or a number that there is not
        raise _wrong(path, f"is not YAML: {printable(str(error), 200)}", "write key: value lines") from None
    if not isinstance(document, dict):
        raise _wrong(path, "is not a profile", "write key: value lines, e.g. extends: pi-4")
    for key in document:
        if key not in (*_HEAD, *FIELDS):
            fix = did_you_mean(str(key), (*_HEAD, *FIELDS)) or f"keys are {', '.join((*_HEAD, *FIELDS))}"
            raise _wrong(path, f"{printable(str(key), 40)} is not a key of a profile", fix)
    return document


def _reference(document: Mapping[str, Any], key: str, path: Path) -> str | None:
    stated = document.get(key)
    if stated is not None and not isinstance(stated, str):
        raise _wrong(path, f"{key} is not a name", "write e.g. pi-4")
    return stated


def _value(key: str, stated: object, path: Path) -> Sourced:
    """``cores: 0.4``, or ``cores: {value: 0.4, source: where it comes from}``."""
    source: object = ""
    if isinstance(stated, dict):
        keys: Mapping[str, object] = stated
        if not {"value"} <= keys.keys() <= {"value", "source"}:
            raise _wrong(path, f"{key} has other keys than value and source", "write {value: 0.4, source: a text}")
        stated, source = keys["value"], keys.get("source", "")
    if isinstance(stated, bool) or not isinstance(stated, str | int | float):
        raise _wrong(path, f"{key} is not a value", "write a number with its unit")
    try:
        FIELDS[key](stated)
    except UsageError as error:
        raise _wrong(path, f"{key}: {error.message}", error.fix) from None
    return Sourced(stated, str(source), path.stem)


def _wrong(path: Path, message: str, fix: str) -> UsageError:
    return UsageError("PROFILE", message, where=str(path), fix=fix)
