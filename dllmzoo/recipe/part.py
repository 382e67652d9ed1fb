"""The mark of a knob that is itself a component: `schedule: Annotated[Any, Part("schedule")]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import core_schema

MARK = "x-dllmzoo-part"


@dataclass(frozen=True)
class Part:
    """Lets a field be given as a name, as `{name: ..., options}`, or as a built object.

    The field always holds the built object, in a recipe and in a Python call alike.

    Args:
        kind: the registry that knows the name, `schedule`.

    Example:
        >>> from typing import Annotated, Any
        >>> schedule: Annotated[Any, Part("schedule")] = "cosine"
    """

    kind: str

    def make(self, value: Any) -> Any:
        """The component that `value` names.

        Raises:
            RecipeError: pydantic hands it on inside its own error, with the place of the field.
        """
        from dllmzoo.recipe.build import nested

        return nested(self.kind, value)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Validate by building."""
        return core_schema.no_info_plain_validator_function(self.make)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """A mark that `dllmzoo.recipe.schema` turns into a reference to the kind's schema."""
        return {MARK: self.kind}
