"""Text of others, made safe to show; and guesses at what a mistyped word meant."""

import difflib
import unicodedata
from collections.abc import Iterable
from itertools import islice

MOST_OPTIONS = 1000
UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, direction marks, surrogates, line separators


def printable(text: str, limit: int = 200, *, keep_newlines: bool = False) -> str:
    """The text without control characters, at most ``limit`` characters long (a cut shows as ...).

    Newlines and tabs become spaces, unless they are kept.
    """
    if len(text) <= limit and text.isprintable():
        return text.strip()
    kept = "".join(map(_shown_with_newlines if keep_newlines else _shown, text[: 4 * limit]))
    kept = kept.strip()
    return kept if len(kept) <= limit else kept[: max(0, limit - 3)] + "..."


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """``did you mean X?`` for the nearest of the first 1,000 options, or nothing."""
    known = list(islice(options, MOST_OPTIONS))
    near = [option for option in known if option.lower() == word.lower()] or difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def _shown(character: str) -> str:
    if character in "\n\r\t":
        return " "
    return "" if unicodedata.category(character) in UNSAFE else character


def _shown_with_newlines(character: str) -> str:
    return character if character in "\n\t" else _shown(character)
