# mypy: ignore-errors
"""Numba's side of ``addresses``: a type that is an address, and the two steps from it to an array.

Its interface for that has no types, so none are checked here.
"""

from collections.abc import Callable

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

_WORD = ir.IntType(64)


class AddressType(types.Type):
    """Of an object that is passed by its address."""


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


def register(class_: type, type_: types.Type) -> None:
    """Instances of the class are of the type."""
    typeof_impl.register(class_)(lambda value, context: type_)


@intrinsic
def word(context, address, place):
    """The word at this place behind the address."""

    def generate(context, builder, signature, arguments):
        start = builder.inttoptr(arguments[0], _WORD.as_pointer())
        loaded = builder.load(builder.gep(start, [arguments[1]]))
        # No call changes the words: other tables have others. So they need not be read again after each store.
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    return types.int64(address, types.int64), generate


@intrinsic
def pointer(context, address, kind):
    """The address as one of values of a kind."""
    type_ = types.CPointer(kind.dtype)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(type_))

    return type_(types.int64, kind), generate


def attribute(name: str, place: int, kind: np.dtype, dimensions: int) -> None:
    """An array of 1 or 2 dimensions whose words begin at this place."""
    if dimensions == 1:
        get = lambda t: carray(pointer(word(t, place), kind), (word(t, place + 1),))  # noqa: E731
    else:
        get = lambda t: carray(pointer(word(t, place), kind), (word(t, place + 1), word(t, place + 2)))  # noqa: E731
    overload_attribute(AddressType, name)(lambda t: get)


def first(name: str, array: str) -> None:
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
