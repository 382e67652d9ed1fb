"""What YAML 1.2 takes a bare word for, in both directions."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

NULL = re.compile(r"^(?:|~|null|Null|NULL)$")
TRUE = re.compile(r"^(?:true|True|TRUE)$")
FALSE = re.compile(r"^(?:false|False|FALSE)$")
INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
INFINITE = re.compile(r"^[-+]?\.(?:inf|Inf|INF)$")
NAN = re.compile(r"^\.(?:nan|NaN|NAN)$")


def resolve(text: str) -> bool | int | float | str | None:
    """The value of a scalar without quotes.

    Raises:
        ValueError: an integer of more digits than Python converts.
    """
    if NULL.match(text):
        return None
    if TRUE.match(text):
        return True
    if FALSE.match(text):
        return False
    if INT.match(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)
    if FLOAT.match(text):
        return float(text)
    if INFINITE.match(text):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if NAN.match(text) else text


class Dumper(yaml.SafeDumper):
    """Writes block mappings and flow lists; quotes every text that could be read as another type.

    It quotes what YAML 1.1 takes for something else too (`no`, `012`, dates), so that other
    tools read the same values.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: list(resolvers)
        for first, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value out each time it occurs."""
        return True


for _tag, _pattern, _first in (
    ("null", NULL, ["~", "n", "N", ""]),
    ("bool", TRUE, list("tT")),
    ("bool", FALSE, list("fF")),
    ("int", INT, list("-+0123456789")),
    ("float", FLOAT, list("-+.0123456789")),
    ("float", INFINITE, list("-+.")),
    ("float", NAN, ["."]),
):
    Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)


def _text(dumper: Dumper, value: str) -> yaml.Node:
    plain = re.fullmatch(r"[^\W_](?:[\w ./+*(){}@%^~=,:;?!-]*[\w./)])?", value, re.ASCII)
    style = None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _float(dumper: Dumper, value: float) -> yaml.Node:
    text = repr(value)
    if not math.isfinite(value):
        text = ".nan" if math.isnan(value) else ("-.inf" if value < 0 else ".inf")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


def _sequence(dumper: Dumper, value: Any) -> yaml.Node:
    flat = not any(isinstance(item, dict | list | tuple) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=flat)


Dumper.add_representer(str, _text)
Dumper.add_representer(float, _float)
Dumper.add_representer(list, _sequence)
Dumper.add_representer(tuple, _sequence)
