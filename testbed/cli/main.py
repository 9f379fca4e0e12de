"""``venn``: its help, and the command that is asked for."""

import os
import sys

from venn.wire import RUN_MARK
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import guard, write_line

# Of the standard library, too, each function imports what it needs: `venn --help` is this file and little else.


class Command:
    """A row of the help. ``extra``: of the distribution, that the command needs; "" is the base."""

    def __init__(self, name: str, synopsis: str, summary: str, module: str, extra: str) -> None:
        self.name, self.synopsis, self.summary, self.module, self.extra = name, synopsis, summary, module, extra


GROUPS: dict[str, tuple[Command, ...]] = {
    "EVERYDAY": (
        Command("demo", "", "run the packaged three-jobs scenario", "testbed.cli.demo", "all"),
        Command("new", "[DIR]", "write scenario.yaml and job.py to start from", "testbed.cli.new", "testbed"),
        Command("run", "SCENARIO", "run a scenario", "testbed.cli.run", "testbed"),
        Command("compare", "SCENARIO...", "compare policies", "testbed.cli.compare", "testbed"),
        Command("watch", "", "show the live view of a running coordinator", "testbed.cli.watch", "testbed"),
        Command("status", "", "print the same, once", "testbed.cli.status", "testbed"),
        Command("explain", "JOB|DEVICE", "explain why it waits", "testbed.cli.explain", "testbed"),
        Command("report", "DIR", "rebuild report.html and figures/", "testbed.cli.report", "testbed"),
        Command("replay", "DIR", "check that a run replays to the same effects", "testbed.cli.replay", "testbed"),
    ),
    "PARTS": (
        Command("coordinator", "", "decide which device serves which job", "coordinator.service.cli", "coordinator"),
        Command("agent", "", "run one device", "device_agent.cli", ""),
        Command("swarm", "", "run many devices in one process", "device_agent.swarm_cli", ""),
        Command("compose", "attend|device", "run a service of compose.yaml", "testbed.cli.compose", "all"),
        Command("broker", "FILE", "run an MQTT broker, for other systems", "testbed.cli.broker", "testbed"),
        Command("relay", "FILE", "shape the links of devices", "testbed.cli.relay", "testbed"),
        Command("job", "run|check|list|wait|cancel", "run one job, or look at jobs", "job_driver.cli", "driver"),
    ),
    "LOOKING AT THINGS": (
        Command(
            "scenario", "check|expand|list|schema", "check and print scenario files", "testbed.cli.scenario", "testbed"
        ),
        Command("policy", "list", "list scheduling policies", "testbed.cli.policy", "testbed"),
        Command("profile", "list|show NAME", "show kinds of devices and links", "testbed.cli.profile", "testbed"),
        Command(
            "population",
            "describe FILE",
            "compare devices with their specification",
            "testbed.cli.population",
            "testbed",
        ),
        Command("data", "split", "split data among devices", "testbed.cli.data", "data"),
        Command("device", "list|drain", "list devices, or send them away", "testbed.cli.device", "testbed"),
    ),
    "THE MACHINE": (
        Command("doctor", "", "check what this machine can enforce", "testbed.cli.doctor", "testbed"),
        Command("down", "", "remove what runs have left behind", "testbed.cli.down", "testbed"),
        Command("bench", "NAME|list", "run benchmarks", "testbed.cli.bench", "all"),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}


def main(argv: list[str]) -> int:
    """The exit code of ``venn ARGV``."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else its core greets each closed connection on stderr
    return guard(lambda: _dispatch(argv), argv, "venn")


def entry_point() -> None:
    """A part of a run ends with the run, whatever ended that."""
    if RUN_MARK in os.environ:
        from venn.wire.process import end_with_parent

        end_with_parent()
    sys.exit(main(sys.argv[1:]))


def _dispatch(argv: list[str]) -> int:
    if "_VENN_COMPLETE" in os.environ:
        from testbed.cli import completion

        return completion.answer()
    match argv:
        case [] | ["--help" | "-h" | "help"]:
            write_line(sys.stdout, _help())
            return ExitCode.OK
        case ["--version"]:
            from importlib.metadata import version

            write_line(sys.stdout, f"venn {version('venn-testbed')}")
            return ExitCode.OK
        case ["--show-completion" | "--install-completion" as option, *shell] if len(shell) < 2:
            from testbed.cli import completion

            return completion.run(option, *(shell or [""]))
        case ["help", name, *_]:
            return _dispatch([name, "--help"])
        case [name, *rest] if name in COMMANDS:
            from testbed.cli.start import start

            return start(COMMANDS[name], rest)
    from venn.wire.text import did_you_mean, printable

    word = next((word for word in argv if not word.startswith("-")), argv[0])
    raise UsageError(
        "USAGE",
        f"{printable(word, 40)!r} is not a command",
        fix=did_you_mean(word, COMMANDS) or "see: venn --help",
    )


def _help() -> str:
    lines = ["Usage: venn COMMAND [OPTIONS]     (venn COMMAND --help for details)", ""]
    for group, commands in GROUPS.items():
        lines.append(group)
        lines += [f"  venn {f'{c.name} {c.synopsis}':<34} {c.summary}" for c in commands]
        lines.append("")
    lines.append("Completion in bash, zsh and fish: venn --install-completion [SHELL]")
    lines.append("Everywhere: --json  --quiet  -v  --no-color  --help     To call a coordinator: --coordinator ADDR")
    return "\n".join(lines)


if __name__ == "__main__":
    entry_point()
