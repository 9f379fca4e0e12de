"""``venn doctor``: what this machine can enforce, by which means, and what to do about the rest."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

from testbed.live.broker import check as check_broker
from testbed.live.throttle.probe import FIELDS, probe
from testbed.scenario.backends import Need, needs_of_backends
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line
from venn.wire.text import printable

app = application()


@app.command(epilog="Example: venn doctor --json")
@command
def doctor(context: Context) -> int:
    """Check each means of each limit, and what backends and a broker need: PASSED, or how to fix it.

    The exit code is 1 if nothing enforces a limit.
    """
    machine = probe()
    backends, broker = dict(needs_of_backends()), check_broker()
    used = {field: machine.means(field) for field in FIELDS}
    if context.json:
        checks = [asdict(each) | {"used": used[each.field] == each.means} for each in machine.checks]
        facts = {"cores": machine.cores, "memory_bytes": machine.memory_bytes, "means": used, "checks": checks}
        facts |= {"backends": {name: _rows(needs) for name, needs in backends.items()}, "broker": _rows([broker])}
        write_line(sys.stdout, json.dumps({"passed": None not in used.values()} | facts))
    else:
        for each in machine.checks:
            verdict = "PASSED" if each.passed else "MISSING"
            first = "" if used[each.field] in (each.means, None) or not each.passed else "; not needed"
            write_line(sys.stdout, f"{verdict:<8} {each.field:<7} {each.means:<11} {printable(each.says, 500)}{first}")
        for who, needs in (*backends.items(), ("broker", [broker])):
            for name, found, wrong in needs:
                verdict = "MISSING" if wrong else "PASSED"
                write_line(sys.stdout, f"{verdict:<8} {who:<7} {name:<11} {printable(found or wrong, 500)}")
    return ExitCode.FAILED if None in used.values() else ExitCode.OK


def _rows(needs: Iterable[Need]) -> list[dict[str, object]]:
    return [{"needs": name, "passed": not wrong, "says": found or wrong} for name, found, wrong in needs]


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn doctor")
