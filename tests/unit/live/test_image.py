"""``make image``: what it says where it cannot build, with an engine that only says what one would say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

IMAGE = Path(__file__).parents[3] / "containers" / "image.py"


def built(folder: Path, engine: str | None, *words: str) -> tuple[int, str]:
    """Exit code and last line of what it says; ``engine`` is the shell script that stands in for docker.

    It runs in a tree of its own, since an image may be built from ours meanwhile."""
    (folder / "containers").mkdir()
    image = shutil.copy(IMAGE, folder / "containers")
    if engine is not None:
        (folder / "docker").write_text(f"#!/bin/sh\n{engine}\n")
        (folder / "docker").chmod(0o755)
    settings = {**os.environ, "PATH": str(folder), "PIP_FIND_LINKS": ""}
    done = subprocess.run([sys.executable, image, *words], capture_output=True, text=True, env=settings, check=False)
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("engine", "code", "said"),
    [
        (None, 3, "docker is not installed"),
        ("echo 'Cannot connect to the Docker daemon' >&2; exit 1", 3, "does not answer; start it"),
        ("echo 'dial unix: permission denied' >&2; exit 1", 3, "join the group docker"),
        ('[ "$1" = version ]', 4, "venn-testbed does not build"),
    ],
)
def test_what_is_in_its_way_is_one_line(tmp_path: Path, engine: str | None, code: int, said: str) -> None:
    got, line = built(tmp_path, engine)
    assert got == code
    assert said in line
    assert [path.name for path in (tmp_path / "containers").iterdir()] == ["image.py"]


def test_the_build_is_handed_what_pip_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "own.pem"
    bundle.write_text("a certificate")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("PIP_CERT", str(bundle))
    words, seen = tmp_path / "words", tmp_path / "seen"
    handed = tmp_path / "containers" / "handed" / "certificates.pem"
    engine = f'[ "$1" = version ] || {{ echo "$@" > {words}; read -r line < {handed}; echo "$line" > {seen}; }}'
    code, _ = built(tmp_path, engine, "--base", "some-base")
    assert code == 0
    assert "--build-arg BASE=some-base" in words.read_text()
    assert "--build-arg PIP_INDEX_URL=https://index.example/simple" in words.read_text()
    assert seen.read_text() == "a certificate\n"
