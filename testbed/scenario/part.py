"""What every mapping of a scenario with fixed keys is made from."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Frozen, without unknown keys; the text below each key is its reference."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )
