"""``@value``: a frozen dataclass that is as fast to make as one that is not.

To type checkers it is frozen. At run time nothing holds that: a dataclass that does sets its fields one call each, and
events and effects are made by the thousand.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(kind: type[T]) -> type[T]:
    """Make a class a value: equal and hashed by its fields."""
    return dataclass(slots=True, unsafe_hash=True)(kind)
