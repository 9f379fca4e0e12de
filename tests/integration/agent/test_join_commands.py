"""The commands by which machines and people join, at a real coordinator."""

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cli.main import main
from tests.integration.gate import write_keys
from venn.wire.authority import make_authority


class Place:
    """A coordinator that machines can join."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.admin = ["--coordinator", address, "--keys", str(folder / "keys")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_authority(write_keys(tmp_path / "keys"))
    command = [sys.executable, "-m", "testbed.cli.main", "coordinator", "--listen", "127.0.0.1:0", "--json", "--quiet"]
    started = subprocess.Popen([*command, "--keys", "keys", "--dir", "run"], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    yield Place(json.loads(started.stdout.readline())["listening"], tmp_path)
    started.terminate()
    started.communicate()


def line(place: Place, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["token", "create", *place.admin, "--host", place.address, *flags, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    return str(said["line"])


def test_a_machine_joins_rotates_and_leaves(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--keys", str(place.folder / "pi")]
    assert main(["agent", "join", line(place, capsys), *own, "--name", "pi"]) == 0
    assert capsys.readouterr().out == f"pi has joined the coordinator at {place.address}\n"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (place.folder / "pi").iterdir()}
    assert modes == {"ca.pem": 0o644, "device.key": 0o600, "joined.json": 0o600}
    first = (place.folder / "pi" / "device.key").read_bytes()
    assert main(["agent", "status", *own, "--json"]) == 0  # it knows the address
    assert json.loads(capsys.readouterr().out)["name"] == "pi"
    assert main(["agent", "rotate", *own]) == 0
    assert (place.folder / "pi" / "device.key").read_bytes() != first
    assert main(["agent", "status", *own]) == 0
    capsys.readouterr()
    assert main(["device", "keys", *place.admin, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["keys"]
    assert ["revoked_ms" in each for each in listed] == [True, False]
    assert main(["agent", "leave", *own]) == 0
    assert not list((place.folder / "pi").iterdir())
    assert main(["agent", "status", *own]) == 2
    assert "venn agent join" in capsys.readouterr().err


def test_a_revoked_machine_is_told_so(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--keys", str(place.folder / "pi")]
    assert main(["agent", "join", line(place, capsys), *own, "--name", "pi"]) == 0
    assert main(["device", "revoke", "pi", *place.admin]) == 0
    assert main(["device", "revoke", "nobody", *place.admin]) == 4
    assert main(["agent", "status", *own]) == 4
    assert "this key was revoked; ask an administrator for a join token" in capsys.readouterr().err


def test_a_person_logs_in_and_sees_own_jobs(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--keys", str(place.folder / "ann")]
    for_people = line(place, capsys, "--role", "job")
    assert main(["agent", "join", for_people, *own, "--name", "ann"]) == 4
    assert "use it with: venn login" in capsys.readouterr().err
    assert main(["login", for_people, *own, "--name", "ann", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["role"] == "job"
    assert main(["job", "list", *own, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"jobs": []}
    assert main(["job", "transfer", "ann/digits/1", "ann", *own]) == 4
    assert "no job ann/digits/1 is known" in capsys.readouterr().err
    assert main(["ca", "show", *own]) == 0
    assert "coordinator." in capsys.readouterr().out


def test_a_token_as_a_qr_code(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("segno")
    assert main(["token", "create", *place.admin, "--qr"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("venn agent join 'VENN://")
    assert len(said.err.splitlines()) > 10
    assert main(["token", "create", *place.admin, "--role", "king"]) == 2


def test_an_authority_is_made_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--keys", str(tmp_path / "keys")]
    assert main(["ca", "show", *keys]) == 2
    assert main(["coordinator", "init", *keys]) == 0
    assert main(["ca", "show", *keys, "--json"]) == 0
    assert main(["coordinator", "init", *keys]) == 2
    assert main(["coordinator", "--listen", "0.0.0.0:0", "--keys", str(tmp_path / "others")]) == 2
    assert "run `venn coordinator init` first, or give --insecure" in capsys.readouterr().err
