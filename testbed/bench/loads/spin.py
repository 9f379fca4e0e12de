"""A load for ``venn bench emulation``: keeps one core busy for so many seconds, if it is let."""

import sys
import time


def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    main()
