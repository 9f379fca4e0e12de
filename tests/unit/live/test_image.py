"""``make image``: what it says where it cannot build, with an engine that only says what one would say."""

import importlib.util
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
        ('[ "$1" = version ] && echo amd64', 4, "venn-testbed does not build"),
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
    build = f'echo "$@" > {words}; read -r line < {handed}; echo "$line" > {seen}'
    engine = f'[ "$1" = version ] && echo amd64 || {{ {build}; }}'
    code, _ = built(tmp_path, engine, "--base", "some-base")
    assert code == 0
    assert "--build-arg BASE=some-base" in words.read_text()
    assert "--platform linux/amd64" in words.read_text()
    assert "--build-arg PIP_INDEX_URL=https://index.example/simple" in words.read_text()
    assert seen.read_text() == "a certificate\n"


@pytest.mark.parametrize(
    ("words", "tag", "platform", "base"),
    [
        ((), "venn-testbed", "linux/amd64", "registry.example/python:3.11"),
        (("--arch", "amd64"), "venn-testbed", "linux/amd64", "registry.example/python:3.11"),
        (("--arch", "arm64"), "venn-testbed:arm64", "linux/arm64", "registry.example/python:3.11"),
        (("--arch", "arm64", "--tag", "mine"), "mine", "linux/arm64", "registry.example/python:3.11"),
        (("--offline",), "venn-testbed", "linux/amd64", "venn-base"),
        (("--offline", "--arch", "arm64"), "venn-testbed:arm64", "linux/arm64", "venn-base:arm64"),
    ],
)
def test_an_image_for_machines_of_another_kind_has_a_tag_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], tag: str, platform: str, base: str
) -> None:
    monkeypatch.setenv("VENN_BASE", "registry.example/python:3.11")
    said = tmp_path / "said"
    code, _ = built(tmp_path, f'[ "$1" = version ] && echo amd64 || echo "$@" >> {said}', *words)
    assert code == 0
    told = said.read_text().splitlines()[-1]
    assert f"--tag {tag} " in told
    assert f"--platform {platform} " in told
    assert f"--build-arg BASE={base} " in told


@pytest.mark.parametrize(
    ("handler", "runs"),
    [
        (None, False),
        ("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: PF\n", True),
        ("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: OC\n", False),
        ("disabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: F\n", False),
    ],
)
def test_an_emulator_has_to_be_there_for_containers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: str | None, runs: bool
) -> None:
    spec = importlib.util.spec_from_file_location("image", IMAGE)
    assert spec is not None
    assert spec.loader is not None
    image = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(image)
    monkeypatch.setattr(image, "BINFMT", tmp_path)
    if handler is not None:
        (tmp_path / "qemu-aarch64").write_text(handler)
    assert image.runs_here("arm64") is runs
