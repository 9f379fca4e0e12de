"""Parameters of a policy: ``fairness=2; tiers=1`` as keyword arguments, by the signature of what makes the policy."""

import difflib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence

Value = bool | int | float | str

_WORDS = {"yes": True, "true": True, "no": False, "false": False}


class PolicyError(ValueError):
    """The error of a policy that does not exist, or whose name stands for something else."""


def pairs(text: str) -> dict[str, str]:
    """Split ``fairness=2; tiers=1`` by key. Raises PolicyError."""
    texts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not (key and equals and value):
            raise PolicyError(f"{part!r} is not KEY=VALUE")
        if key in texts:
            raise PolicyError(f"{key} is given twice")
        texts[key] = value
    return texts


def arguments(make: Callable[..., object], texts: Mapping[str, str], *others: str) -> dict[str, Value]:
    """The values in ``texts``, each of its parameter's annotated type, or of its default's type. Raises PolicyError.

    ``others``: names that users may give as well, for whoever reads what is said about a wrong one.
    """
    known = {
        name: parameter
        for name, parameter in inspect.signature(make, eval_str=True).parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    names = list(dict.fromkeys([*known, *others]))
    return {key: _value(key, value, known, names) for key, value in texts.items()}


def _value(key: str, text: str, known: dict[str, inspect.Parameter], names: Sequence[str]) -> Value:
    if key not in known:
        close = difflib.get_close_matches(key, names, n=1)
        has = f"it has {', '.join(names)}"
        raise PolicyError(f"there is no parameter {key!r}; {f'did you mean {close[0]}?' if close else has}")
    kind = known[key].annotation
    if kind is inspect.Parameter.empty:
        kind = type(known[key].default)
    if kind is bool:
        if text.lower() not in _WORDS:
            raise PolicyError(f"{key} is {text!r}; write yes or no")
        return _WORDS[text.lower()]
    if kind is int:
        return _number(key, text, int, "a whole number")
    if kind == int | str:
        return int(text) if text.isdecimal() else text
    if kind is float:
        value = _number(key, text, float, "a number")
        if not math.isfinite(value):
            raise PolicyError(f"{key} is {text!r}; write a number")
        return value
    return text


def _number(key: str, text: str, kind: type[int] | type[float], what: str) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise PolicyError(f"{key} is {text!r}; write {what}") from None
