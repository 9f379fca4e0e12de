"""The form of figures for people, the same in every table and on every page."""

import math
import re

_FILE = re.compile(r"^.*/(?=[^/]+\.py:)")


def seconds(value: float | None, digits: int = 1) -> str:
    """``12.3``; ``-`` for none. A rounding error below 0 is 0."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def span(value: float) -> str:
    """``47 s``, ``1 min 28 s``, ``2 h 5 min``."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def duration(value: float) -> str:
    """``84.4 s``; from ten minutes on as ``span``."""
    return span(value) if value >= 600 else f"{seconds(value)} s"


def clock(value: float) -> str:
    """``00:47``; hours only where there are any."""
    whole = max(0, int(value))
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole % 3600 // 60:02d}:{whole % 60:02d}"


def metric(value: float | None) -> str:
    """``0.931``; ``-`` for none."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == round(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def percent(fraction: float | None) -> str:
    """``77 %``; ``-`` for none. A rounding error below 0 is 0."""
    return "-" if fraction is None else f"{round(fraction * 100)} %"


def gib(count: float | None) -> str:
    """``2.1`` GiB, without its unit."""
    return "-" if count is None else f"{count / 2**30:.1f}"


def counted(number: int, thing: str, many: str = "") -> str:
    """``1 device``, ``104 devices``."""
    return f"{number} {thing if number == 1 else many or thing + 's'}"


def large(number: float) -> str:
    """``950``, ``12,300``, ``12.3 M``."""
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,.0f}"


def policy(name: str) -> str:
    """``FILE.py:NAME`` without the folders of the file; any other name as it is."""
    return _FILE.sub("", name)


def slug(policy: str) -> str:
    """A file's name for a policy, which may be FILE.py:NAME or have parameters."""
    plain = "".join(character if character.isalnum() or character in "-_." else "-" for character in policy)
    return plain.strip("-.")
