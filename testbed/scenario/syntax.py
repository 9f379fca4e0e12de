"""What to tell a person of text that is not YAML."""

import yaml
from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

from testbed.scenario.errors import Problem

_OPENED = {"[": "a list", "{": "a mapping", '"': "a quoted text", "'": "a quoted text"}


def syntax_problem(error: yaml.YAMLError, source: str, text: str) -> Problem:
    """One line for what PyYAML tells in five."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return Problem(f"{source}:{line}", f"holds a character that YAML forbids (U+{code:04X})", "remove it")
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return Problem(source, f"is not YAML: {error}")
    mark, problem = error.problem_mark, error.problem or "cannot be read"
    where = f"{source}:{mark.line + 1}"
    opened = error.context_mark
    what = _OPENED.get(text[opened.index : opened.index + 1]) if opened is not None else None
    if opened is not None and what and mark.index >= len(text.rstrip()):
        return Problem(where, f"the file ends inside {what} that begins on line {opened.line + 1}", "is it cut off?")
    if "<stream end>" in problem:
        return Problem(where, "the file ends where a value should be", "is it cut off?")
    if text[mark.index : mark.index + 1] == "\t":
        return Problem(where, "a tab, where YAML allows only spaces", "indent with spaces")
    if "another document" in problem:
        return Problem(where, "a second document begins", "one file is one scenario: remove the --- line")
    if "undefined alias" in problem:
        return Problem(where, f"{problem}", "an &anchor comes before its *alias")
    if "mapping values are not allowed here" in problem:
        return Problem(where, "a colon where no key can be", "check the indentation, or put the text in quotes")
    if "could not find expected ':'" in problem:
        return Problem(where, "a key without a colon", "write key: value")
    begun = f" (in what begins on line {opened.line + 1})" if opened is not None and opened.line != mark.line else ""
    return Problem(where, f"not YAML: {problem}{begun}")
