"""How a program that moves large messages treats the memory they pass through."""

import ctypes

# Parameters of mallopt(3), from glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MESSAGE_BYTES = 2 * 2**20  # more than a chunk with its copies on the way
KEPT_BYTES = 32 * 2**20


def reuse_freed_memory() -> None:
    """Keep up to 32 MiB of freed memory for the next message, instead of giving each back to the system.

    By default glibc maps and unmaps a buffer of half a megabyte for every copy of every chunk, and the page faults
    cost more than all the copying (six times the time to encode a chunk, measured). Other C libraries: no effect.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(M_MMAP_THRESHOLD, MESSAGE_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
