"""Run folders that versions of this format wrote are still read, replayed and summed up as they were.

If a test here fails, what is written has changed its meaning: users can no longer read the runs they have. A change of
the format needs a new format version (``FORMAT``), a reader of the old one, and new golden folders and fields beside
the old ones (``python -m tests.golden.record``, ``.fields``). Never record an old one again to make a test pass.

A policy or an engine that decides otherwise on purpose is no change of the format, but ends the replay of old runs:
then say so in CHANGELOG.md, record new folders, and replay only these.
"""

import json
import tarfile
from pathlib import Path
from typing import get_args

import pytest

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.record import effect_from_json, event_from_json
from coordinator.service.facts import Fact, fact_from_json
from coordinator.service.journal import FORMAT
from testbed.report.record import load_run
from testbed.report.replay import replay_here
from testbed.report.summary import summarise
from testbed.runfolder.journal import FORMATS, journal_files, read_lives
from tests.golden.fields import FIELDS, RECORDS, example, fields_text

GOLDEN = Path(__file__).parents[2] / "golden"
FIGURES = {  # events, leases, responses in rounds, rounds of all jobs, aborts, digest
    "format-2-simulated": (1048, 215, 140, 44, 3, "46097a83fdc2b055-ba70e6910ff59fa0"),
    "format-2-scripted": (180, 4, 1, 0, 1, "66eeceaf25454790"),
    "format-3-simulated": (989, 204, 140, 44, 0, "2f211f92a58253d9"),
    "format-3-scripted": (182, 4, 1, 0, 1, "66eeceaf25454790"),
    "format-2-live": (854, 168, 140, 60, 3, "7dd955c20a1dc8ac-13e150953b31d947"),
}
UNWRITTEN = {
    f"format-{format_}-scripted": ["NO_DECISION"] for format_ in FORMATS
}  # findings of the audit: it has a journal and no log of a driver


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The golden run folders, unpacked, by name."""
    place = tmp_path_factory.mktemp("golden")
    for packed in GOLDEN.glob("*.tar.gz"):
        with tarfile.open(packed) as file:
            file.extractall(place / packed.name.removesuffix(".tar.gz"), filter="data")
    return {folder.name: folder for folder in place.iterdir()}


def test_this_format_has_golden_folders() -> None:
    assert {path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz")} == set(FIGURES)
    for format_ in (*FORMATS, FORMAT):
        assert any(name.startswith(f"format-{format_}-") for name in FIGURES), "record golden folders of the new format"
    assert sum(path.stat().st_size for path in GOLDEN.glob("*.tar.gz")) < 150_000


@pytest.mark.parametrize("name", FIGURES)
def test_a_golden_folder_is_summed_up_as_it_was(name: str, folders: dict[str, Path]) -> None:
    record = load_run(folders[name])
    summary = summarise(record)
    assert [finding.kind for finding in summary.audit.findings] == UNWRITTEN.get(name, [])
    assert FIGURES[name] == (
        len(record.journal.entries),
        summary.leases.granted,
        summary.leases.responses,
        sum(job.rounds for job in summary.jobs),
        sum(job.aborts for job in summary.jobs),
        record.journal.digest,
    )


@pytest.mark.parametrize("name", FIGURES)
def test_a_golden_journal_is_replayed_with_equal_effects(name: str, folders: dict[str, Path]) -> None:
    for path in journal_files(folders[name]):
        replayed = replay_here(path)
        assert replayed.difference is None
        assert replayed.same


def test_the_fields_of_all_records_are_those_of_this_format() -> None:
    """By name, type and order, and by the values of an example: two fields that change places are found."""
    assert fields_text() == FIELDS.read_text()
    examples = {json.loads(line)[0]: json.loads(line) for line in FIELDS.read_text().splitlines() if line[0] == " "}
    assert examples.keys() == {kind.__name__ for kind in RECORDS}
    readers = {Event: event_from_json, Effect: effect_from_json, Fact: fact_from_json}
    for records, read in readers.items():
        for kind in get_args(records):
            assert read(examples[kind.__name__]) == example(kind)


def test_every_event_and_effect_is_in_a_golden_journal(folders: dict[str, Path]) -> None:
    entries = [entry for folder in folders.values() for entry in read_lives(folder).entries]
    met = {type(entry.event) for entry in entries} | {type(effect) for entry in entries for effect in entry.effects}
    assert met == {*get_args(Event), *get_args(Effect)}
