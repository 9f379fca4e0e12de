"""The broker of a run: a Mosquitto with one listener, where nobody gets in without the password."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from venn.wire.errors import CannotEnforceError, PeerError, UsageError, VennError
from venn.wire.files import file_error, write_atomic
from venn.wire.requirements import Selector, Whom

if TYPE_CHECKING:  # a broker that starts again has no need of it
    from testbed.scenario.backends import Need
    from testbed.scenario.model import Scenario

NAME = str(Whom.BROKER)
PORT = 1883
USER = "venn"
PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")  # where packages put it, beside the PATH
CONFIGURATION = """\
listener {port} {host}
allow_anonymous false
password_file {passwords}
log_type error
log_type warning
"""


def check() -> "Need":
    """The line of `venn doctor` about the broker."""
    from testbed.scenario.backends import Need

    try:
        return Need("mosquitto", found=find_programs()[0])
    except VennError as error:
        return Need("mosquitto", missing=f"{error.message}; {error.fix}")


def is_broken(scenario: "Scenario") -> bool:
    """Whether the timeline of a scenario breaks the broker. Only then a run has one."""
    return any(isinstance(entry.of, Selector) and entry.of.whom is Whom.BROKER for entry in scenario.churn)


def find_programs() -> tuple[str, str]:
    """Return the paths of Mosquitto and of the program that hashes its passwords. Raises CannotEnforceError BROKER."""
    return _find("mosquitto"), _find("mosquitto_passwd")


def _find(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    if found is None:
        fix = "install it (Debian: apt install mosquitto)"
        raise CannotEnforceError("BROKER", f"there is no {name} on this machine", where="broker", fix=fix)
    return found


def make_broker(token: Path, host: str, port: int) -> list[str]:
    """Write the settings of a broker beside ``token``, the file of its password, and return its command.

    Raises CannotEnforceError BROKER, UsageError TOKEN, and PeerError or UsageError for what cannot be written.
    """
    program, hash_passwords = find_programs()
    passwords, configuration = token.with_suffix(".passwords"), token.with_suffix(".conf")
    try:
        password = token.read_text(encoding="utf-8").strip()
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise UsageError("TOKEN", message, where=str(token), fix="name a file with a password in it") from error
    told = CONFIGURATION.format(port=port, host=host, passwords=passwords)
    told += "user root\n" * (os.geteuid() == 0)  # else it would become another, who may not read its files
    try:
        write_atomic(passwords, f"{USER}:{password}\n", mode=0o600)
        write_atomic(configuration, told, mode=0o600)
    except OSError as error:
        raise file_error(error, token.parent) from error
    hashed = subprocess.run([hash_passwords, "-U", str(passwords)], capture_output=True, text=True, check=False)
    if hashed.returncode != 0:
        raise PeerError("BROKER", f"its password was not hashed: {hashed.stderr.strip()}", where=str(passwords))
    return [program, "-c", str(configuration)]
