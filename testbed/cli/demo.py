"""``venn demo``: three jobs on about a hundred devices, the packaged scenario."""

from testbed.cli.run import Out, Policy, Seed, run_file
from testbed.scenario.packaged import packaged
from venn.wire.command import Context, application, command, execute

NAME = "venn demo"
SCENARIO = "three-jobs"

app = application()


@app.command(epilog="Example: venn demo --policy random --json")
@command
def demo(context: Context, policy: Policy = None, seed: Seed = None, out: Out = None) -> int:
    """Run three jobs on about a hundred devices that come and go, in under two minutes."""
    settings = [f"--{key}={value}" for key, value in (("policy", policy), ("seed", seed)) if value is not None]
    return run_file(context, NAME, packaged(SCENARIO), settings, out=out)


def main(argv: list[str]) -> int:
    return execute(app, argv, NAME)
