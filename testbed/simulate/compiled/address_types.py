# mypy: ignore-errors
"""Numba's side of ``addresses``: a type that is an address, and the two steps from it to an array.

Its interface for that has no types, so none are checked here.
"""

from collections.abc import Sequence

from llvmlite import ir
from numba import carray
from numba.core import cgutils, types
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    overload_attribute,
    register_jitable,
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
    type_ = types.CPointer(kind.dtype if isinstance(kind, types.NumberClass) else kind)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(type_))

    return type_(types.int64, kind), generate


def attribute(name: str, place: int, kind: object, columns: Sequence[int]) -> None:
    """An array whose words begin at this place; ``columns``: its shape but for the rows, 0 where that differs."""

    def extent(axis, known):
        def looked_up(t):
            return word(t, place + axis)

        def constant(t):
            return known

        return register_jitable(constant if known else looked_up)

    rows, *rest = (extent(axis, known) for axis, known in enumerate((0, *columns), 1))
    if not rest:
        get = lambda t: carray(pointer(word(t, place), kind), (rows(t),))  # noqa: E731
    elif len(rest) == 1:
        (second,) = rest
        get = lambda t: carray(pointer(word(t, place), kind), (rows(t), second(t)))  # noqa: E731
    else:
        second, third = rest
        get = lambda t: carray(pointer(word(t, place), kind), (rows(t), second(t), third(t)))  # noqa: E731
    overload_attribute(AddressType, name)(lambda t: get)


@intrinsic
def fetch(context, table, row):
    """Have a row of a table of two dimensions brought into the cache, from its first column to its last."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        columns = builder.extract_value(array.shape, 1)
        first = builder.gep(array.data, [builder.mul(arguments[1], columns)])
        last = builder.gep(first, [builder.sub(columns, columns.type(1))])
        bytes_, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        of = ir.FunctionType(ir.VoidType(), [bytes_, word, word, word])
        prefetch = cgutils.get_or_insert_function(builder.module, of, "llvm.prefetch")
        for place in (first, last):
            builder.call(prefetch, [builder.bitcast(place, bytes_), word(1), word(3), word(1)])  # to write, keep, data
        return context.get_dummy_value()

    return types.void(table, types.int64), generate
