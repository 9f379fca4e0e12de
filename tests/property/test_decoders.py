"""Each decoder makes of any bytes a valid value or its own error, within bounds of calls and memory.

``python -m tests.fuzz NAME`` goes on with one of them for as long as you like (docs/development.md).
"""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.decoders import DECODERS
from tests.fuzz.found import FOUND

EXAMPLES = 50


@pytest.mark.parametrize("name", DECODERS)
def test_valid_encodings_are_read(name: str) -> None:
    for seed in DECODERS[name].seeds:
        DECODERS[name].decode(seed)  # what is made once, such as a codec, is not counted below


@pytest.mark.parametrize("what", FOUND)
def test_what_was_found_is_mended(what: str) -> None:
    name, data = FOUND[what]
    DECODERS[name].check(data)


@pytest.mark.parametrize("name", DECODERS)
def test_any_bytes_are_a_value_or_an_error(name: str) -> None:
    decoder = DECODERS[name]

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(decoder.inputs())
    def check(data: bytes) -> None:
        decoder.check(data, watch_memory=False)

    check()
