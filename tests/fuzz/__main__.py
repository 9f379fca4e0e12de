"""Long runs over the table of decoders: ``python -m tests.fuzz [NAME ...] --seconds 300``.

With atheris, where it is installed (``pip install atheris``), inputs grow towards code that was not reached before.
Without it, hypothesis draws them, other ones each time. What is found is told once for each place that raised it, and
its shortest input is kept in ``build/fuzz/NAME/``: ``python -m tests.fuzz NAME --input FILE`` decodes that again.
"""

import argparse
import importlib.util
import math
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from venn.wire.exits import write_line

KEPT = Path("build/fuzz")
AT_ONCE = 100  # inputs that hypothesis draws before a look at the clock


class Findings:
    """What a decoder raised and should not have, by place."""

    def __init__(self, name: str, folder: Path) -> None:
        from tests.fuzz.decoders import DECODERS

        self.decoder, self._folder = DECODERS[name], folder / name
        self._shortest: dict[str, int] = {}
        self.tried = self.valid = 0

    def __len__(self) -> int:
        return len(self._shortest)

    def try_(self, data: bytes) -> None:
        """Decode an input, and note what should not have come of it."""
        self.tried += 1
        try:
            self.valid += self.decoder.check(data)
        except Exception as error:
            self._note(data, error)

    def _note(self, data: bytes, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
        if len(data) >= self._shortest.get(place, sys.maxsize):
            return
        path = self._folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if place not in self._shortest:
            write_line(
                sys.stdout,
                f"{self.decoder.name}: {type(error).__name__}: {error!s:.300}\n  {frame.filename}:{frame.lineno}",
            )
            write_line(sys.stdout, f"  {data!r:.300}\n  kept in {path}")
        self._shortest[place] = len(data)

    def told(self) -> str:
        """One line of what was done."""
        return f"{self.decoder.name}: {self.tried} inputs, {self.valid} valid, {len(self)} findings"


def with_hypothesis(found: Findings, seconds: float) -> None:
    """Draw inputs until the time is over."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    @settings(
        max_examples=AT_ONCE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(found.decoder.inputs())
    def draw(data: bytes) -> None:
        found.try_(data)

    until, turn = time.monotonic() + seconds, time.time_ns()
    while time.monotonic() < until:
        turn += 1
        seed(turn)(draw)()
    write_line(sys.stdout, found.told())


def with_atheris(name: str, folder: str, seconds: float) -> None:
    """Let libFuzzer grow inputs; it ends the process when the time is over."""
    import atheris  # type: ignore[import-not-found]  # it is no dependency

    with atheris.instrument_imports(include=["coordinator", "device_agent", "job_driver", "testbed", "venn", "yaml"]):
        found = Findings(name, Path(folder))
    corpus = Path(tempfile.mkdtemp(prefix="venn-corpus-"))
    for number, valid in enumerate(found.decoder.seeds):
        (corpus / str(number)).write_bytes(valid)
        found.try_(valid)
    until = time.monotonic() + seconds

    def one(data: bytes) -> None:
        nonlocal until
        found.try_(data)
        if time.monotonic() > until:
            until = math.inf
            write_line(sys.stdout, found.told())

    limits = [f"-max_total_time={math.ceil(seconds) + 1}", "-timeout=60", "-rss_limit_mb=4096", "-max_len=8192"]
    atheris.Setup([name, *limits, f"-artifact_prefix={corpus}/", str(corpus)], one)
    atheris.Fuzz()


def _in_process_of_its_own(name: str, folder: Path, seconds: float) -> None:
    """Run ``with_atheris``; what libFuzzer says of its progress is left out, but not why it ended early."""
    code = f"from tests.fuzz.__main__ import with_atheris; with_atheris({name!r}, {str(folder)!r}, {seconds})"
    done = subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        write_line(sys.stdout, "\n".join([f"{name}: ended with {done.returncode}", *lines[-8:]]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="decoders; default: all, one after the other")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each decoder")
    parser.add_argument("--input", type=Path, metavar="FILE", help="decode this, and nothing else")
    parser.add_argument("--by", choices=("atheris", "hypothesis"), help="default: atheris where it is installed")
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="DIR", help="where inputs are kept")
    given = parser.parse_args()
    by = given.by or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    from tests.fuzz.decoders import DECODERS

    names = given.names or list(DECODERS)
    if unknown := [name for name in names if name not in DECODERS]:
        parser.error(f"no decoder {unknown[0]}; known are {', '.join(DECODERS)}")
    if given.input is not None:
        write_line(sys.stdout, "valid" if DECODERS[names[0]].check(given.input.read_bytes()) else "refused")
        return 0
    for name in names:
        if by == "atheris":
            _in_process_of_its_own(name, given.keep, given.seconds)
            continue
        found = Findings(name, given.keep)
        for valid in found.decoder.seeds:
            found.try_(valid)
        with_hypothesis(found, given.seconds)
    return int(any(path.is_file() for path in given.keep.rglob("*")))


if __name__ == "__main__":
    sys.exit(main())
