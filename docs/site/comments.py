"""An extension of mkdocstrings (griffe): the comment behind a field is its text in the reference."""

import re
from typing import Any

import griffe

COMMENT = re.compile(r"  # (.+)$")


class Comments(griffe.Extension):
    """Gives each field without a docstring the comment of its line, if it has one."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        found = COMMENT.search(attr.source.splitlines()[0]) if attr.docstring is None and attr.lineno else None
        if found and not found[1].startswith(("type:", "noqa")):
            attr.docstring = griffe.Docstring(found[1], lineno=attr.lineno, parent=attr)
