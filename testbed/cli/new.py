"""``venn new``: a scenario and a job file to start from, which run as they are, and the schema for editors."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

import testbed.scenario
from testbed.scenario.schema import schema_text
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.files import out_of_space

app = application()

STARTER = Path(testbed.scenario.__file__).parent / "starter"
FILES = ("scenario.yaml", "job.py")
SCHEMA = "scenario.schema.json"  # the first line of scenario.yaml names it, for editors


@app.command(epilog="Example: venn new my-jobs")
@command
def new(
    context: Context,
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to; made if absent.")] = Path(),
) -> int:
    """Write scenario.yaml and job.py to start from, and the schema that editors check scenario.yaml against."""
    paths = write_starter(folder)
    if context.json:
        write_line(sys.stdout, json.dumps({"files": [str(path) for path in paths]}))
    elif not context.quiet:
        write_line(
            sys.stdout, f"wrote {paths[0]}, {paths[1]} and {paths[2]}\nnext  venn run {paths[0]}        (half a minute)"
        )
    return ExitCode.OK


def write_starter(folder: Path) -> list[Path]:
    """Raises UsageError rather than overwrite a file; then nothing is written."""
    paths = [folder / name for name in (*FILES, SCHEMA)]
    for path in paths:
        if path.exists() or path.is_symlink():
            raise UsageError("EXISTS", "exists already", where=str(path), fix="name another folder: venn new DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            with path.open("xb") as file:
                file.write(
                    (schema_text() + "\n").encode() if path.name == SCHEMA else (STARTER / path.name).read_bytes()
                )
    except OSError as error:
        unusable = UsageError("NO_FOLDER", f"cannot be written to: {error.strerror}", where=str(folder))
        raise out_of_space(error, folder) or unusable from None
    return paths


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn new")
