"""How a validator says what is wrong; the loader adds the place."""

from collections.abc import Iterable

from pydantic_core import PydanticCustomError

from venn.wire.text import did_you_mean, printable


def wrong(message: str, fix: str = "") -> PydanticCustomError:
    """What a validator raises: what is wrong, and what to do."""
    return PydanticCustomError("scenario", "{message}", {"message": message, "fix": fix})


def shown(value: object) -> str:
    """What was read, for a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return f"'{printable(value, 80)}'"
        case _:
            return printable(str(value), 80)


def known(word: object, options: Iterable[str]) -> str:
    """The likeliest of ``options``, or all of them."""
    names = list(options)
    if isinstance(word, str) and (hint := did_you_mean(word, names)):
        return hint
    return f"known are {', '.join(names)}" if names else "there are none"
