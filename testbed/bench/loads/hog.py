"""Takes memory until it is refused or killed: ``python -m testbed.bench.loads.hog BYTES``.

Prints "ready" and waits for a line. Then it touches a mebibyte at a time, at most BYTES, and prints after each what the
process holds: resident bytes of its own and bytes of data (RssAnon and VmData of proc(5)).
"""

import sys
from pathlib import Path

STEP_BYTES = 2**20
PAGE_BYTES = 4096
STATUS = Path("/proc/self/status")


def held() -> tuple[int, int]:
    """Resident bytes of its own, and bytes of data."""
    fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024, int(fields["VmData"].split()[0]) * 1024


def main() -> None:
    most = int(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    kept = []
    for _ in range(0, most, STEP_BYTES):
        try:
            piece = bytearray(STEP_BYTES)
            piece[::PAGE_BYTES] = b"x" * len(range(0, STEP_BYTES, PAGE_BYTES))
        except MemoryError:
            return
        kept.append(piece)
        resident, data = held()
        sys.stdout.write(f"{resident} {data}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
