"""What a device's worker and a command that only wants its help may not load."""

import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import venn.wire.tensors", {"grpc", "google", "typer"}),
        ("import venn.wire.files, venn.wire.text, venn.wire.errors", {"grpc", "google", "typer", "numpy"}),
        ("import venn.wire.notation", {"grpc", "typer", "numpy"}),
        ("import venn.wire.command", {"grpc", "google", "numpy", "pydantic"}),
        (
            "from testbed.cli.main import main; main(['--help'])",
            {"grpc", "google", "numpy", "pydantic", "typer", "rich", "typing", "json", "tempfile", "pathlib"},
        ),
    ],
)
def test_lean(statement: str, absent: set[str]) -> None:
    assert not loaded_by(statement) & absent
