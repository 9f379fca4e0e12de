# mypy: ignore-errors
"""How an object full of arrays is passed to compiled code: as one address. To be imported only where Numba compiles.

Numba would pass every array of a tuple on its own, seven values each, at every call: that takes most of a minute to
compile. Here compiled code is given where a table of words is, and an attribute is an array that is made from its words
(where it is, and its shape) when it is looked at. Numba's interface for that has no types, so none are checked here.
"""

from collections.abc import Callable, Mapping

import numpy as np
from llvmlite import ir
from numba import carray
from numba.core import cgutils, types
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    overload_attribute,
    register_model,
    typeof_impl,
    unbox,
)

from testbed.simulate.compiled.layout import WORDS

_WORD = ir.IntType(64)


class AddressType(types.Type):
    """Type of an object that is passed by its address."""


@register_model(AddressType)
class _AddressModel(models.PrimitiveModel):
    def __init__(self, manager, type_):
        super().__init__(manager, type_, _WORD)


@unbox(AddressType)
def _unbox(type_, value, context):
    address = context.pyapi.object_getattr_string(value, "address")
    number = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    return NativeValue(number)


def pass_by_address(class_: type, arrays: Mapping[str, tuple[np.dtype[np.generic], int]], **firsts: str) -> None:
    """Let compiled code take an instance of ``class_``. It has the attribute ``address``, where the words of its arrays
    are, in the order of ``arrays``: the type of each, and its dimensions, 1 or 2. All are contiguous. ``firsts``:
    attributes that are the first value of an array."""
    type_ = AddressType(class_.__name__)
    typeof_impl.register(class_)(lambda value, context: type_)
    for place, (name, (kind, dimensions)) in enumerate(arrays.items()):
        _attribute(name, WORDS * place, kind, dimensions)
    for name, array in firsts.items():
        _first(name, array)


@intrinsic
def _word(context, address, place):
    """The word at this place behind the address."""

    def generate(context, builder, signature, arguments):
        start = builder.inttoptr(arguments[0], _WORD.as_pointer())
        loaded = builder.load(builder.gep(start, [arguments[1]]))
        # No call changes the words: other tables have others. So they need not be read again after each store.
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    return types.int64(address, types.int64), generate


@intrinsic
def _pointer(context, address, kind):
    """The address as one of values of a kind."""
    type_ = types.CPointer(kind.dtype)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(type_))

    return type_(types.int64, kind), generate


def _attribute(name: str, place: int, kind: np.dtype, dimensions: int) -> None:
    """An array of 1 or 2 dimensions whose words begin at this place."""
    if dimensions == 1:
        get = lambda t: carray(_pointer(_word(t, place), kind), (_word(t, place + 1),))  # noqa: E731
    else:
        get = lambda t: carray(_pointer(_word(t, place), kind), (_word(t, place + 1), _word(t, place + 2)))  # noqa: E731
    overload_attribute(AddressType, name)(lambda t: get)


def _first(name: str, array: str) -> None:
    """The first value of an array."""
    made: dict[str, Callable] = {}
    exec(f"def get(t): return t.{array}[0]", made)
    overload_attribute(AddressType, name)(lambda t: made["get"])


@intrinsic
def fetch(context, table, row):
    """Have the beginning of a row of a table brought into the cache."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        bytes_, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        of = ir.FunctionType(ir.VoidType(), [bytes_, word, word, word])
        prefetch = cgutils.get_or_insert_function(builder.module, of, "llvm.prefetch")
        row = builder.bitcast(builder.gep(array.data, [arguments[1]]), bytes_)
        builder.call(prefetch, [row, word(1), word(3), word(1)])  # to write, keep, data
        return context.get_dummy_value()

    return types.void(table, types.int64), generate
