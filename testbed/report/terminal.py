"""The console of a command: coloured on a terminal that wants it, plain text elsewhere."""

import sys

from rich.console import Console

from venn.wire.command import Context


def console(context: Context, *, least_width: int = 0, errors: bool = False) -> Console:
    """On stdout, or on stderr for ``errors``. Where there is no terminal, no line is cut below ``least_width``."""
    made = Console(
        file=sys.stderr if errors else sys.stdout,
        no_color=not context.color,
        color_system="auto" if context.color else None,
        highlight=False,
        markup=False,
    )
    made.width = max(made.width, least_width)
    return made
