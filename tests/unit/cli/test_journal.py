"""``venn journal``: a journal is checked, shown, exported and compacted, and damage is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.engine.record import effect_from_json, event_from_json
from coordinator.policies.registry import load_policy
from coordinator.service.facts import DriverAt
from coordinator.service.journal import Journal, Start
from coordinator.service.restore import restore
from testbed.cli.main import main
from testbed.testing.engine import random_script
from venn.wire.errors import ExitCode
from venn.wire.locks import locked_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the journal of a random script, in segments of which snapshots are."""
    play = random_script(3, load_policy("fifo"), steps=30)
    start = Start(play.engine.settings, incarnation=1, wall_ms=0, name="shown", software="1")
    journal = Journal(tmp_path / "events.jsonl", start)
    journal.note(0.0, DriverAt(next(iter(play.engine.jobs)), "127.0.0.1:1", 1))
    for now, event, effects in play.journal:
        journal.append(
            now, event_from_json(json.loads(event)), [effect_from_json(effect) for effect in json.loads(effects)]
        )
    journal.close()
    return tmp_path


def venn(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["journal", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def as_json(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    code, out, _ = venn(capsys, *words, "--json")
    return code, json.loads(out)


def test_a_whole_journal_is_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = as_json(capsys, "check", folder)
    assert (code, said["whole"], said["problem"]) == (ExitCode.OK, True, "")
    assert said["files"][0]["lines"] > 100


def test_a_damaged_line_is_named_and_a_torn_one_is_no_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "events.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    code, said = as_json(capsys, "check", folder)
    assert (code, said["whole"]) == (ExitCode.OK, True)
    assert said["files"][0]["torn_bytes"] > 0
    path.write_bytes(data.replace(b'"n":7,', b'"n":8,', 1))
    code, out, _ = venn(capsys, "check", folder)
    assert code == ExitCode.FAILED
    assert "events.jsonl:9" in out  # after the start and a fact


def test_records_are_shown_the_latest_and_those_about_a_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = as_json(capsys, "show", folder, "--last", 5)
    assert (code, len(rows)) == (ExitCode.OK, 5)
    _, rows = as_json(capsys, "show", folder, "--about", "d1", "--last", 1000)
    assert rows
    assert all('"d1"' in json.dumps(row) for row in rows)
    _, out, _ = venn(capsys, "show", folder, "--last", 3)
    assert len(out.splitlines()) == 3


def test_all_records_are_exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = as_json(capsys, "export", folder, folder / "all.json")
    rows = [json.loads(line) for line in (folder / "all.json").read_text().splitlines()]
    assert (code, said["records"]) == (ExitCode.OK, len(rows))
    assert "fact" in rows[0]
    assert not any("crc" in row for row in rows)


def test_a_compacted_journal_has_the_same_state_and_takes_less(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = restore(folder, load_policy)
    for _ in range(3):
        code, said = as_json(capsys, "compact", folder)
        assert code == ExitCode.OK
    assert said["bytes_after"] < (folder / "events.jsonl").stat().st_size + 200_000
    assert not (folder / "events-1.jsonl").exists()
    after = restore(folder, load_policy)
    assert before is not None
    assert after is not None
    assert after.engine.world.ends == before.engine.world.ends
    assert list(after.facts) == list(before.facts)
    assert after.written.digest.hex() == before.written.digest.hex()
    assert as_json(capsys, "check", folder)[1]["whole"]


def test_what_cannot_be_done_says_why(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = venn(capsys, "check", tmp_path / "nowhere")
    assert (code, "no journal is there" in err) == (ExitCode.USAGE, True)
    with locked_folder(folder, "coordinator.lock", "coordinator"):
        code, _, err = venn(capsys, "compact", folder)
    assert (code, "another coordinator works in this folder" in err) == (ExitCode.USAGE, True)
    code, _, err = venn(capsys, "export", folder, tmp_path / "no" / "such" / "folder.json")
    assert (code, "choose another place" in err) == (ExitCode.USAGE, True)
