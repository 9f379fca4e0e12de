"""The library that every side of the wire shares: channels, tensors, chunks, tickets, keys, errors, the notation,
commands.
"""

RUN_MARK = "VENN_TESTBED_RUN"  # in the environment of all that a testbed starts: its mark (`venn.wire.process`)
