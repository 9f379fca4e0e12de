import json
from pathlib import Path

import pytest

from testbed.report.record import load_run
from tests.unit.report.world import INCARNATION, World
from venn.wire.errors import UsageError


def test_everything_that_was_written_is_read(folder: Path) -> None:
    record = load_run(folder)
    assert record.journal.settings.policy == "venn"
    assert record.journal.incarnation == INCARNATION
    assert sorted(record.drivers) == ["narrow", "wide"]
    assert sorted(record.hosts) == ["c", "swarm"]
    assert record.alone() == {"c"}
    assert record.journal.entries[-1].t == record.journal.last_s == 31.0


def test_a_run_that_was_killed_is_read_up_to_there(world: World, tmp_path: Path) -> None:
    folder = world.write(tmp_path, digest=None)
    for name in ("events.jsonl", "jobs/wide/manifest.jsonl", "devices/swarm/receipts.jsonl"):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-9])
    record = load_run(folder)
    assert record.journal.digest == ""
    assert len(record.journal.entries) == len(world.lines) - 1


def test_only_the_journal_is_required(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.name != "events.jsonl" and path.is_file():
            path.unlink()
    record = load_run(folder)
    assert (record.about, record.population, record.loads) == ({}, (), {})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "NO_JOURNAL"),
        ("", "NO_JOURNAL"),
        ('{"kind": "other"}\n', "RUN_DAMAGED"),
        ('{"kind": "start", "format": 99}\n', "JOURNAL_FORMAT"),
        ('{"kind": "start", "format": 2, "settings": {"seed": 1}}\n', "RUN_DAMAGED"),
        ('{"kind": "start", "format": 2, "settings": {"seed": 1, "policy": "venn", "new": 1}}\n', "RUN_DAMAGED"),
    ],
)
def test_what_is_no_journal_is_one_clear_error(tmp_path: Path, content: str | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "events.jsonl").write_text(content)
    with pytest.raises(UsageError) as caught:
        load_run(tmp_path)
    assert caught.value.reason == reason
    assert caught.value.fix


def test_a_line_of_another_kind_is_named(folder: Path) -> None:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    lines[3] = json.dumps({"n": 3, "t": 1.0, "event": ["NoSuchEvent", {}], "effects": []})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UsageError, match=r"events.jsonl:4"):
        load_run(folder)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        load_run(tmp_path / "nowhere")
