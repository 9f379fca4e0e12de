"""How an object full of arrays is passed to compiled code: as one address.

Numba would pass every array of a tuple on its own, seven values each, at every call: that takes most of a minute to
compile. Here compiled code is given where a table of words is, and an attribute is an array that is made from its words
(where it is, and its shape) when it is looked at. Without Numba attributes are what they are.
"""

from collections.abc import Mapping

import numpy as np

WORDS = 4  # of an array: its address, and its shape


def pass_by_address(class_: type, arrays: Mapping[str, tuple[type[np.generic], int]]) -> None:
    """Let compiled code take an instance of ``class_``. It has the attribute ``address``, where the words of its arrays
    are, in the order of ``arrays``: name -> type and number of dimensions (1 to 3). All are contiguous."""
    try:
        from numba.core import types
    except ImportError:
        return

    from testbed.simulator.address_types import AddressType, attribute, register

    register(class_, AddressType(class_.__name__))
    for place, (name, (kind, dimensions)) in enumerate(arrays.items()):
        attribute(name, WORDS * place, getattr(types, kind.__name__), dimensions)
