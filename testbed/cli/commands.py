"""The table of commands: what `venn --help` prints, and where each command is."""


class Command:
    """A row of the help. ``module``: its ``app`` is the command, or has it among its own. ``extra``: what the command
    needs of the distribution; "" is the base.
    """

    def __init__(self, name: str, synopsis: str, summary: str, module: str, extra: str) -> None:
        self.name, self.synopsis, self.summary, self.module, self.extra = name, synopsis, summary, module, extra


GROUPS: dict[str, tuple[Command, ...]] = {
    "EVERYDAY": (
        Command("demo", "", "run the packaged three-jobs scenario", "testbed.cli.run", "all"),
        Command("new", "[DIR]", "write scenario.yaml and job.py to start from", "testbed.cli.scenario", "testbed"),
        Command("run", "SCENARIO", "run a scenario", "testbed.cli.run", "testbed"),
        Command("compare", "SCENARIO...", "compare policies", "testbed.cli.compare", "testbed"),
        Command("watch", "", "show the live view of a running coordinator", "testbed.cli.remote", "testbed"),
        Command("status", "", "print the same, once", "testbed.cli.remote", "testbed"),
        Command("explain", "JOB|DEVICE", "explain why it waits", "testbed.cli.remote", "testbed"),
        Command("report", "DIR", "rebuild report.html and figures/", "testbed.cli.results", "testbed"),
        Command("replay", "DIR", "check that a run replays to the same effects", "testbed.cli.results", "testbed"),
    ),
    "PARTS": (
        Command(
            "coordinator", "[init]", "decide which device serves which job", "coordinator.service.cli", "coordinator"
        ),
        Command("agent", "[join|status|rotate|leave|doctor]", "run one device", "device_agent.cli", ""),
        Command("swarm", "", "run many devices in one process", "device_agent.swarm_cli", ""),
        Command("compose", "attend|device", "run a service of compose.yaml", "testbed.cli.parts", "all"),
        Command("broker", "FILE", "run an MQTT broker, for other systems", "testbed.cli.parts", "testbed"),
        Command("relay", "FILE", "shape the links of devices", "testbed.cli.parts", "testbed"),
        Command(
            "job", "run|check|list|wait|cancel|transfer", "run one job, or look at jobs", "job_driver.cli", "driver"
        ),
        Command("token", "create", "make a line with which others join", "testbed.cli.identity", ""),
        Command("login", "LINE", "join a coordinator as a person", "testbed.cli.identity", ""),
        Command("ca", "show", "show the certificate authority that is trusted", "testbed.cli.identity", ""),
    ),
    "LOOKING AT THINGS": (
        Command(
            "scenario", "check|expand|list|schema", "check and print scenario files", "testbed.cli.scenario", "testbed"
        ),
        Command("policy", "list", "list scheduling policies", "testbed.cli.catalog", "testbed"),
        Command("profile", "list|show NAME", "show kinds of devices and links", "testbed.cli.catalog", "testbed"),
        Command(
            "population",
            "describe FILE",
            "compare devices with their specification",
            "testbed.cli.population",
            "testbed",
        ),
        Command("data", "split", "split data among devices", "testbed.cli.data", "data"),
        Command("journal", "check|show|export|compact", "look at a journal", "testbed.cli.journal", "testbed"),
        Command("device", "list|drain|keys|revoke", "list devices, or send them away", "testbed.cli.remote", "testbed"),
    ),
    "THE MACHINE": (
        Command("doctor", "", "check what this machine can enforce", "testbed.cli.machine", "testbed"),
        Command("down", "", "remove what runs have left behind", "testbed.cli.machine", "testbed"),
        Command("chaos", "run|sim", "check what must hold while everything fails", "testbed.cli.chaos", "testbed"),
        Command("bench", "NAME|list", "run benchmarks", "testbed.cli.machine", "all"),
    ),
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}
