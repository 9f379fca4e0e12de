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
        Command("demo", "", "the packaged three-jobs scenario", "testbed.cli.demo", "all"),
        Command("new", "[DIR]", "scenario.yaml and job.py to start from", "testbed.cli.new", "testbed"),
        Command("run", "SCENARIO", "run it", "testbed.cli.run", "testbed"),
        Command("compare", "SCENARIO...", "several policies", "testbed.cli.compare", "testbed"),
        Command("watch", "", "the live view on any running coordinator", "testbed.cli.watch", "testbed"),
        Command("status", "", "the same, once", "testbed.cli.status", "testbed"),
        Command("explain", "JOB|DEVICE", "why it waits", "testbed.cli.explain", "testbed"),
        Command("report", "DIR", "rebuild report.html and figures/", "testbed.cli.report", "testbed"),
        Command("replay", "DIR", "same effects again? 1 if not", "testbed.cli.replay", "testbed"),
    ),
    "PARTS": (
        Command("coordinator", "", "decides which device serves which job", "coordinator.service.cli", "coordinator"),
        Command("agent", "", "one device", "device_agent.cli", ""),
        Command("swarm", "", "many devices, one process", "device_agent.swarm_cli", ""),
        Command("compose", "attend|device", "what compose.yaml starts", "testbed.cli.compose", "all"),
        Command("broker", "FILE", "an MQTT broker, for others", "testbed.cli.broker", "testbed"),
        Command("relay", "FILE", "the links of devices, shaped", "testbed.cli.relay", "testbed"),
        Command("job", "run|check|list|wait|cancel", "one job and its driver", "job_driver.cli", "driver"),
    ),
    "LOOKING AT THINGS": (
        Command("scenario", "check|expand|list|schema", "scenario files", "testbed.cli.scenario", "testbed"),
        Command("policy", "list", "scheduling policies", "testbed.cli.policy", "testbed"),
        Command("profile", "list|show NAME", "kinds of devices and links", "testbed.cli.profile", "testbed"),
        Command("population", "describe FILE", "devices, made against asked", "testbed.cli.population", "testbed"),
        Command("data", "split", "data for devices", "testbed.cli.data", "data"),
        Command("device", "list|drain", "devices of a coordinator", "testbed.cli.device", "testbed"),
    ),
    "THE MACHINE": (
        Command("doctor", "", "what it can enforce", "testbed.cli.doctor", "testbed"),
        Command("down", "", "remove everything that is ours", "testbed.cli.down", "testbed"),
        Command("bench", "NAME|list", "measurements", "testbed.cli.bench", "all"),
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
        from venn.wire.supervised import end_with_parent

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
        f"{printable(word, 40)!r} is no command",
        fix=did_you_mean(word, COMMANDS) or "see: venn --help",
    )


def _help() -> str:
    lines = ["Usage: venn COMMAND [OPTIONS]     (venn COMMAND --help says more)", ""]
    for group, commands in GROUPS.items():
        lines.append(group)
        lines += [f"  venn {f'{c.name} {c.synopsis}':<34} {c.summary}" for c in commands]
        lines.append("")
    lines.append("Completion in bash, zsh and fish: venn --install-completion [SHELL]")
    lines.append("Everywhere: --json  --quiet  -v  --no-color  --help     To call a coordinator: --coordinator ADDR")
    return "\n".join(lines)


if __name__ == "__main__":
    entry_point()
