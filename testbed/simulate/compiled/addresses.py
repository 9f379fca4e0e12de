"""How an object full of arrays is passed to compiled code: as one address.

Numba would pass every array of a tuple on its own, seven values each, at every call: that takes most of a minute to
compile. Here compiled code is given where a table of words is, and an attribute is an array that is made from its words
(where it is, and its shape) when it is looked at. Without Numba attributes are what they are.
"""

from collections.abc import Mapping

import numpy as np

WORDS = 3  # of an array: its address, and its shape


def pass_by_address(class_: type, arrays: Mapping[str, tuple[np.dtype[np.generic], int]], **firsts: str) -> None:
    """Let compiled code take an instance of ``class_``. It has the attribute ``address``, where the words of its arrays
    are, in the order of ``arrays``: the type of each, and its dimensions, 1 or 2. All are contiguous. ``firsts``:
    attributes that are the first value of an array."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return

    from testbed.simulate.compiled.address_types import AddressType, attribute, first, register

    register(class_, AddressType(class_.__name__))
    for place, (name, (kind, dimensions)) in enumerate(arrays.items()):
        attribute(name, WORDS * place, kind, dimensions)
    for name, array in firsts.items():
        first(name, array)
