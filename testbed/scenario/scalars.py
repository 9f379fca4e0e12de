"""What a plain word of YAML means here, and the words that YAML itself would read in a surprising way.

YAML 1.1 takes ``1:30`` for 90, ``no`` for false and ``010`` for 8; YAML 1.2 does not. A scenario must not depend on
which of the two a reader knows, so such words are refused, with what to write in their place.
"""

import re
from math import isfinite

Scalar = bool | int | float | str | None

_TRUTH = {"true": True, "false": False}
_YES_NO = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]*)?(?P<exponent>[eE][-+]?[0-9]+)?")
_BARE_FRACTION = re.compile(r"[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_OCTAL = re.compile(r"[-+]?0[0-9_]+")
_UNDERSCORED = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?")
_OTHER_BASE = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+|o[0-7]+)")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)
_LONGEST_NUMBER = 40  # characters; Python's own int() refuses thousands of digits with a traceback


class Surprise(ValueError):
    """A word that YAML readers do not agree on. ``fix`` says what to write."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted word. Raises Surprise."""
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    refuse_surprise(text)
    if len(text) <= _LONGEST_NUMBER:
        if (number := _NUMBER.fullmatch(text)) is not None:
            if number["fraction"] is None and number["exponent"] is None:
                return int(text)
            return _finite(text)
        if _BARE_FRACTION.fullmatch(text):
            return _finite(text)
    return text


def refuse_surprise(text: str) -> None:
    """Raises Surprise if YAML 1.1 makes of ``text`` something that its reader does not see."""
    if text.lower() in _YES_NO:
        meant = _YES_NO[text.lower()]
        raise Surprise(f"YAML reads {text} as {meant}", f'write {meant}, or "{text}" in quotes for the word')
    if _SIXTIES.fullmatch(text):
        seconds = _in_sixties(text)
        raise Surprise(
            f"YAML reads {text} as {seconds}", f'write {seconds}s for a time, or "{text}" in quotes for text'
        )
    if _NOT_FINITE.fullmatch(text):
        raise Surprise(f"{text} is not a finite number", "leave the key out for no limit")
    if _OTHER_BASE.fullmatch(text):
        value = int(text.replace("_", ""), 0)
        raise Surprise(f"YAML reads {text} as {value}", f'write {value}, or "{text}" in quotes for text')
    if _OCTAL.fullmatch(text):
        digits = text.replace("_", "")
        plain = digits.lstrip("+-0") or "0"
        raise Surprise(f"YAML reads {text} as a number in base 8", f'write {plain}, or "{text}" in quotes for text')
    if "_" in text and _UNDERSCORED.fullmatch(text):
        plain = text.replace("_", "")
        raise Surprise(f"YAML reads {text} as {plain}", f'write {plain}, or "{text}" in quotes for text')


def _in_sixties(text: str) -> str:
    """What YAML 1.1 makes of ``1:30``: 90."""
    digits = text.replace("_", "").lstrip("+-")
    total = 0.0
    for part in digits.split(":"):
        total = total * 60 + float(part)
    return f"{total:.15g}"


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise Surprise(f"{text} is too large for a number", "write a smaller one")
    return value
