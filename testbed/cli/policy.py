"""``venn policy``: the scheduling policies."""

import json
import sys

from coordinator.policies.registry import PolicyError, policy_names, summary
from venn.wire.command import Context, application, command, execute
from venn.wire.exits import write_line
from venn.wire.text import printable

app = application(several=True)


@app.callback()
def policy() -> None:
    """Policies: which job gets the next device."""


@app.command("list", epilog="Example: venn run three-jobs.yaml --policy fifo")
@command
def list_(context: Context) -> int:
    """List the installed policies."""
    rows = [(name, _summary(name)) for name in policy_names()]
    if context.json:
        write_line(sys.stdout, json.dumps({"policies": [{"name": name, "summary": text} for name, text in rows]}))
        return 0
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        write_line(sys.stdout, f"{name:{width}}  {printable(text)}")
    if not context.quiet:
        write_line(sys.stdout, "\nor FILE.py:NAME, a class of your own with `name` and `plan(view)`")
    return 0


def _summary(name: str) -> str:
    # One broken plug-in must not hide the others.
    try:
        return summary(name)
    except PolicyError as error:
        return str(error)


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn policy")
