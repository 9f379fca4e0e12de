"""``venn down``: remove what testbeds have left on this machine."""

import json
import sys
from typing import Annotated

import typer

from testbed.scenario.backends import Leftover, leftovers_of_backends
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line
from venn.wire.text import printable

app = application()


@app.command(epilog="Example: venn down --dry-run")
@command
def down(
    context: Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    in_use_too: Annotated[bool, typer.Option("--all", help="Also what belongs to runs that still go on.")] = False,
    of: Annotated[str | None, typer.Option("--of", metavar="MARK", help="Remove only what has this mark.")] = None,
) -> int:
    """Remove what testbeds that are gone have left: processes, cgroups, namespaces, containers, networks.

    The exit code is 4 if something could not be removed."""
    found = [each for each in leftovers_of_backends() if of in (None, each.mark)]
    spared = [each for each in found if each.in_use and not in_use_too]
    due = [each for each in found if each not in spared]
    failed: dict[str, str] = {}
    for each in due if not dry_run else ():
        try:
            each.remove()
        except OSError as error:
            failed[each.name] = str(error)
    if context.json:
        rows = [_row(each, failed) for each in due]
        shape = {"dry_run": dry_run, "removed": rows, "spared": [_row(each, {}) for each in spared]}
        write_line(sys.stdout, json.dumps(shape))
    elif not context.quiet:
        for each in due:
            verb = "would remove" if dry_run else "FAILED" if each.name in failed else "removed"
            why = f": {failed[each.name]}" if each.name in failed else ""
            write_line(sys.stdout, f"{verb} {each.kind} {printable(each.name, 200)} ({each.mark}){why}")
        if spared:
            write_line(sys.stdout, f"left alone: {len(spared)} items of runs that still go on (--all removes them too)")
        if not found:
            write_line(sys.stdout, "nothing is left to remove")
    return ExitCode.PEER if failed else ExitCode.OK


def _row(each: Leftover, failed: dict[str, str]) -> dict[str, str]:
    why = {"failed": failed[each.name]} if each.name in failed else {}
    return {"kind": each.kind, "name": each.name, "mark": each.mark, **why}


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn down")
