"""A broker where Mosquitto is only pretended to be there."""

import os
from pathlib import Path

import pytest

from testbed.live.backend import broker
from testbed.live.backend.prepare import prepare
from testbed.live.backend.protocol import Run
from testbed.live.processes.backend import Processes
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario, parse
from testbed.scenario.backends import Need
from venn.wire.errors import CannotEnforceError, PeerError, UsageError

HASHES = "#!/bin/sh\nsed -i s/secret/HASHED/ $2\n"
REFUSES = "#!/bin/sh\necho no memory >&2; exit 1\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs are looked for; there is none."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setattr(broker, "PLACES", (str(place),))
    monkeypatch.setenv("PATH", "/nowhere")
    return place


def install(programs: Path, hashes: str = HASHES) -> None:
    for name, text in (("mosquitto", ""), ("mosquitto_passwd", hashes)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (tmp_path / "broker").write_text("secret\n")
    return tmp_path / "broker"


def test_it_listens_at_one_place_and_lets_nobody_in_without_the_password(
    programs: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(programs)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    program, flag, file = broker.make_broker(token, "127.0.0.1", 4711)
    assert (Path(program).name, flag) == ("mosquitto", "-c")
    told = Path(file).read_text().splitlines()
    assert told[:3] == ["listener 4711 127.0.0.1", "allow_anonymous false", f"password_file {token}.passwords"]
    assert Path(f"{token}.passwords").read_text() == "venn:HASHED\n"
    assert {os.stat(f"{token}.{name}").st_mode & 0o777 for name in ("passwords", "conf")} == {0o600}


def test_without_mosquitto_it_says_what_to_install(programs: Path, token: Path) -> None:
    with pytest.raises(CannotEnforceError, match=r"no mosquitto on this machine; .*apt install mosquitto"):
        broker.make_broker(token, "127.0.0.1", 4711)
    assert "apt install mosquitto" in broker.check().missing
    install(programs)
    assert broker.check() == Need("mosquitto", found=str(programs / "mosquitto"))


def test_a_password_that_is_not_there_or_not_hashed_is_one_line(programs: Path, token: Path) -> None:
    install(programs, REFUSES)
    with pytest.raises(PeerError, match="was not hashed: no memory"):
        broker.make_broker(token, "127.0.0.1", 4711)
    with pytest.raises(UsageError, match="nothere: cannot be read"):
        broker.make_broker(token.with_name("nothere"), "127.0.0.1", 4711)


def test_a_run_whose_timeline_breaks_it_is_refused_before_anything_starts(
    programs: Path, scenario: Scenario, folder: RunFolder
) -> None:
    def parts(of: Scenario) -> Processes:
        return Processes(Run(of, folder, prepared, False, False, print))

    prepared = prepare(scenario, folder)
    assert parts(scenario).others == []  # nobody breaks one, so there is none
    broken = parse(scenario.dump().replace("churn: []", "churn: [{at: 1s, crash: broker, for: 2s}]"))
    with pytest.raises(CannotEnforceError, match="apt install mosquitto"):
        parts(broken)
    install(programs)
    [other] = parts(broken).others
    assert other.name == "broker"
