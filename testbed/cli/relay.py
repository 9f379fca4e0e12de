"""``venn relay``: links of devices in user space."""

from pathlib import Path
from typing import Annotated

import typer

from testbed.live.throttle.relay import read_specs, serve
from venn.wire import logs
from venn.wire.command import Context, application, command, execute, run_async

app = application()


@app.command(epilog="Example: venn relay links.json; then venn agent --throttle throttle.json")
@command
def relay(
    context: Context,
    *,
    links: Annotated[Path, typer.Argument(metavar="FILE", help="Links, as `venn run` writes them.")],
    counts: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here how many bytes passed.")] = None,
    load: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here how late its event loop runs.")] = None,
) -> int:
    """Shape the links of devices: rate, delay, jitter. `venn run` starts it if a scenario limits links."""
    logs.configure(component="relay", verbose=context.verbose, quiet=context.quiet)
    return run_async(serve(read_specs(links), counts, load))


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn relay")
