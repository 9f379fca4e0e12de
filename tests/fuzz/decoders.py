"""All decoders that take bytes from outside, by name."""

from collections.abc import Mapping

from tests.fuzz.decoder import Decoder
from tests.fuzz.notation import NOTATIONS
from tests.fuzz.stores import STORES
from tests.fuzz.wire import WIRE
from tests.fuzz.worlds import WORLDS

DECODERS: Mapping[str, Decoder] = {decoder.name: decoder for decoder in (*WIRE, *NOTATIONS, *WORLDS, *STORES)}
