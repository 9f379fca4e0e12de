"""``venn journal``: what a coordinator has recorded, and whether it is whole."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from coordinator.engine.events import JournalRotated
from coordinator.engine.image import image_of
from coordinator.engine.record import RecordError
from coordinator.service.journal import Journal
from coordinator.service.policy import policy_of
from coordinator.service.restore import restore
from coordinator.service.sealed import unseal
from coordinator.service.segments import EVENTS, LOCK, drop_old, read_snapshot, snapshot_path, snapshots
from testbed.cli.shared import answer
from testbed.runfolder.journal import journal_files, journal_rows
from testbed.runfolder.jsonlines import Row
from venn.wire.command import Context, application, command
from venn.wire.errors import ExitCode, UsageError
from venn.wire.files import write_atomic
from venn.wire.locks import locked_folder
from venn.wire.text import printable

LINE = 400  # characters of a record that are shown

app = application()
journal = application("Journals of coordinators.", several=True)
app.add_typer(journal, name="journal")

Folder = Annotated[Path, typer.Argument(help="Folder of a coordinator, or of a run.", metavar="DIR")]


@journal.command(epilog="Example: venn journal check runs/by-hand")
@command
def check(context: Context, folder: Folder) -> int:
    """Check every checksum, and that the state can be made again. The exit code is 1 if something is damaged."""
    files = [_checked(path) for path in _files(folder)]
    kept = [_checked_snapshot(snapshot_path(folder, segment)) for segment in snapshots(folder)]
    problem = next((str(each["problem"]) for each in (*files, *kept) if each["problem"]), "")
    if not problem:
        problem = _not_restored(folder)

    def lines() -> Iterator[str]:
        for each in files:
            torn = f", {each['torn_bytes']} bytes at the end cut short" if each["torn_bytes"] else ""
            yield f"{each['file']}: {each['lines']} whole lines{torn}" + _ending(each)
        for each in kept:
            yield f"{each['file']}: " + (f"damaged: {each['problem']}" if each["problem"] else "whole")
        yield f"damaged: {problem}" if problem else "whole"

    answer(context, {"files": files, "snapshots": kept, "whole": not problem, "problem": problem}, lines())
    return ExitCode.FAILED if problem else ExitCode.OK


@journal.command(epilog="Example: venn journal show runs/by-hand --about phone-1 --last 50")
@command
def show(
    context: Context,
    folder: Folder,
    *,
    about: Annotated[str, typer.Option(metavar="NAME", help="Only records that name this job or device.")] = "",
    last: Annotated[int, typer.Option(min=1, metavar="N", help="How many records, the latest.")] = 20,
) -> int:
    """Show the latest records, a line each: engine time, event or fact, and what it had as effects."""
    rows = [row for row in _records(folder) if not about or f'"{about}"' in json.dumps(row)][-last:]
    answer(context, rows, (printable(_line(row), LINE) for row in rows))
    return ExitCode.OK


@journal.command(epilog="Example: venn journal export runs/by-hand events.json")
@command
def export(
    context: Context,
    folder: Folder,
    file: Annotated[Path, typer.Argument(help="File to write: a JSON object a line.", metavar="FILE")],
) -> int:
    """Write all records into one file, without checksums."""
    rows = list(_records(folder))
    try:
        write_atomic(file, "".join(json.dumps(row) + "\n" for row in rows))
    except OSError as error:
        fix = "choose another place"
        raise UsageError("FILE", f"cannot be written: {error.strerror}", where=str(file), fix=fix) from error
    answer(context, {"file": str(file), "records": len(rows)}, [f"{file}: {len(rows)} records"], unless_quiet=True)
    return ExitCode.OK


@journal.command(epilog="Example: venn journal compact runs/by-hand")
@command
def compact(context: Context, folder: Folder) -> int:
    """Take a snapshot of a coordinator that is stopped, and remove the segments that two snapshots have in them."""
    _files(folder)
    with locked_folder(folder, LOCK, "coordinator"):
        before = _bytes(folder)
        restored = restore(folder, policy_of)
        if restored is None:
            message = "nothing whole is recorded there"
            raise UsageError("NO_JOURNAL", message, where=str(folder), fix="name another folder")
        engine, at = restored.engine, restored.last_s
        kept = Journal(folder / EVENTS, restored.start, written=restored.written, keep_bytes=0)
        kept.append(at, JournalRotated(), engine.handle(JournalRotated(), at))
        kept.rotate(at, engine.world.policy, restored.facts, image_of(engine))
        kept.break_off()
        drop_old(folder, 0)
    after = _bytes(folder)
    answer(context, {"bytes_before": before, "bytes_after": after}, [f"{before:,} bytes before, {after:,} after"])
    return ExitCode.OK


def _files(folder: Path) -> list[Path]:
    """The files of the journal in a folder. Raises UsageError if there is none."""
    found = [path for path in journal_files(folder) if path.is_file()]
    if not found:
        fix = "name the folder of a coordinator (--dir) or of a run"
        raise UsageError("NO_JOURNAL", "no journal is there", where=str(folder), fix=fix)
    return found


def _bytes(folder: Path) -> int:
    paths = (*journal_files(folder), *(snapshot_path(folder, segment) for segment in snapshots(folder)))
    return sum(path.stat().st_size for path in paths if path.is_file())


def _checked(path: Path) -> dict[str, object]:
    try:
        lines = len(journal_rows(path))
        problem = ""
    except UsageError as error:
        lines, problem = 0, str(error)
    whole = unseal(path.read_bytes())
    return {"file": path.name, "lines": lines, "torn_bytes": whole.torn if not problem else 0, "problem": problem}


def _ending(checked: dict[str, object]) -> str:
    return f"; {checked['problem']}" if checked["problem"] else ""


def _checked_snapshot(path: Path) -> dict[str, object]:
    try:
        read_snapshot(path)
    except RecordError as error:
        return {"file": path.name, "problem": str(error)}
    return {"file": path.name, "problem": ""}


def _not_restored(folder: Path) -> str:
    """Why the state cannot be made again; empty: it can."""
    try:
        restored = restore(folder, policy_of)
    except UsageError as error:
        return str(error) if error.reason != "JOURNAL_FORMAT" else ""  # an earlier one is read, and not taken up
    if restored is not None:
        restored.engine.validate()
    return ""


def _records(folder: Path) -> Iterator[Row]:
    """All events and facts, in their order."""
    for path in _files(folder):
        for row in journal_rows(path):
            if "event" in row or "fact" in row:
                yield {key: value for key, value in row.items() if key != "crc"}


def _line(row: Row) -> str:
    if "fact" in row:
        return f"{row['t']:>12} fact {json.dumps(row['fact'])}"
    effects = row["effects"]
    told = "".join(f" -> {json.dumps(effect)}" for effect in effects) if isinstance(effects, list) else ""
    return f"{row['t']:>12} {row['n']} {json.dumps(row['event'])}{told}"
