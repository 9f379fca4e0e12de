"""How an object full of arrays is passed to compiled code: as one address.

Numba would pass every array of a tuple on its own, seven values each, at every call: that takes most of a minute to
compile. Here compiled code is given where a table of words is, and an attribute is an array that is made from its words
(where it is, and its shape) when it is looked at. Without Numba attributes are what they are.
"""

from collections.abc import Mapping

import numpy as np

WORDS = 4  # of an array: its address, and its shape


ANY = 0  # columns: as the array has them
Layout = tuple[type[np.generic], *tuple[int, ...]]  # of an array: its type, and its shape but for the rows


def pass_by_address(class_: type, arrays: Mapping[str, Layout]) -> None:
    """Let compiled code take an instance of ``class_``. It has the attribute ``address``, where the words of its arrays
    are, in the order of ``arrays``, which names them. All are contiguous, and of 1 to 3 dimensions."""
    try:
        from numba.core import types
    except ImportError:
        return

    from testbed.simulate.compiled.address_types import AddressType, attribute, register

    register(class_, AddressType(class_.__name__))
    for place, (name, (kind, *columns)) in enumerate(arrays.items()):
        attribute(name, WORDS * place, getattr(types, kind.__name__), columns)
