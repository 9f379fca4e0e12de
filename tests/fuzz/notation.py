"""Decoders of the notation: texts of scenarios, flags and messages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fuzz.decoder import Decoder, text_of
from venn.wire import notation, requirements
from venn.wire.notation import NotationError

REQUIREMENTS = (
    b"all",
    b'memory >= 4 GB and (cpu > 7 or not site = "north lab")',
    b"id in (phone-1; phone-2) or not (os != android-14 and cpu <= 2.5)",
)
SELECTORS = (b"25% of flagship", b"3 of site=lab", b"all", b"driver handwriting", b"coordinator")
DURATIONS = (b"15s", b"250ms", b"1.5h", b"2e3 m", b" 7 d ")
SIZES = (b"4 GB", b"512 MiB", b"1.5 kB", b"7B")
RATES = (b"4 Mbit/s", b"1.5e2 kbit/s", b"7 bit/s")
PARTS = (b"80%", b"0.8", b"1", b"2.5e-3")
NUMBERS = (b"7", b"-2.5", b"2.5e3", b".5")
DRAWN: Mapping[notation.Unit, Sequence[bytes]] = {
    "duration": (*DURATIONS, b"exp(8s)", b"lognormal(8s; 1.0)", b"1s..4s"),
    "bytes": (*SIZES, b"2 GB..4 GB", b"lognormal(4 GB; 0.5)"),
    "rate": (*RATES, b"1 Mbit/s..8 Mbit/s", b"lognormal(4 Mbit/s; 1.0)"),
    "number": (*NUMBERS, b"1..4", b"lognormal(8; 1.0)", b"exp(3)"),
}
_SIGNS = (
    b" and ",
    b" or ",
    b"not ",
    b"(",
    b")",
    b'"',
    b"=",
    b"!=",
    b">=",
    b" of ",
    b"%",
    b"/min",
    b"; ",
    b"..",
    b" GB",
    b"ms",
    b"d",
)


def _notation(name: str, seeds: Sequence[bytes], parse: Callable[[str], Any], show: Callable[[Any], str]) -> Decoder:
    return Decoder(
        name,
        lambda: seeds,
        lambda data: parse(text_of(data)),
        (NotationError,),
        again=lambda value: show(value).encode(errors="surrogateescape"),
        words=_SIGNS,
    )


def _distribution(unit: notation.Unit) -> Decoder:
    def parse(text: str) -> notation.Distribution:
        return notation.parse_distribution(text, unit)

    return _notation(f"distributions-{unit}", DRAWN[unit], parse, str)


NOTATIONS = (
    _notation("requirements", REQUIREMENTS, requirements.parse_requirement, requirements.format_requirement),
    _notation("selectors", SELECTORS, requirements.parse_selector, str),
    _notation("rates-of", (b"20%/min", b"5%/min of budget", b"1%/min of site=lab"), requirements.parse_rate_of, str),
    _notation("durations", DURATIONS, notation.parse_duration, notation.format_duration),
    _notation("sizes", SIZES, notation.parse_bytes, notation.format_bytes),
    _notation("rates", RATES, notation.parse_rate, notation.format_rate),
    _notation("fractions", PARTS, notation.parse_fraction, notation.format_fraction),
    _notation("numbers", NUMBERS, notation.parse_number, notation.format_number),
    *map(_distribution, DRAWN),
)
