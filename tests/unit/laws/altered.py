"""A stand-in that behaves like another part, but for what is changed."""

from typing import Any


class Altered:
    """A part that behaves like another one but for the given attributes and methods."""

    def __init__(self, part: Any, **others: Any) -> None:
        vars(self).update(part=part, **others)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["part"], name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self).get("call", self.part)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Altered({self.part!r})"
