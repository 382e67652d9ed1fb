"""The JSON Schema of a recipe, by which an editor completes and checks it while it is written."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from dllmzoo.describe import Info, describe
from dllmzoo.recipe._explain import option_types
from dllmzoo.recipe.build import section_class
from dllmzoo.recipe.part import MARK
from dllmzoo.recipe.recipe import HEAD, KEYS, NEEDED, PARTS, SECTIONS, Head
from dllmzoo.recipe.sections import Model
from dllmzoo.zoo import MODELS, ZOO

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Schema of a whole recipe (draft 2020-12), with everything registered when it is called.

    Every part offers the names there are, each name its own options, with types, ranges,
    defaults and meanings. Rules across keys are not in it; `dllmzoo check` knows them.
    """
    defs: dict[str, Any] = {}
    for kind, registry in ZOO.items():
        if registry is not MODELS:
            defs[kind] = _kind(kind, defs)
    head = _options(Head, describe("recipe", "recipe", (), Head, ""), defs)
    head["format"] = {"const": Head().format, "description": head["format"]["description"]}
    head["smoke"] = {
        "type": "object",
        "description": f"{head['smoke']['description']} Dotted keys, or a mapping as above.",
    }
    properties: dict[str, Any] = {}
    for key in KEYS:
        if key in HEAD:
            properties[key] = head[key]
        elif key in PARTS:
            properties[key] = {"anyOf": [{"$ref": f"#/$defs/{key}"}, {"type": "null"}]}
        else:
            cls = Model if key == "model" else SECTIONS[key]
            properties[key] = _section(key, cls, defs)
    families = sorted({*MODELS.names()})
    properties["model"]["properties"]["name"]["enum"] = families
    properties["model"] = {"anyOf": [properties["model"], {"enum": families}]}
    return {
        "$schema": DRAFT,
        "title": "A dllmzoo recipe",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": ["model"],
        "if": {"properties": {"stage": {"const": "sft"}}, "required": ["stage"]},
        "then": {"required": list(NEEDED["sft"])},
        "else": {"required": list(NEEDED["rl"])},
        "$defs": defs,
    }


def _kind(kind: str, defs: dict[str, Any]) -> dict[str, Any]:
    """Any component of a kind: its name, or a mapping with its options."""
    registry = ZOO[kind]
    infos = [registry.describe(name) for name in registry.names()]
    names = [each for info in infos for each in (info.name, *info.aliases)]
    needy = {info.name for info in infos if _required(info)}
    bare = [each for info in infos if info.name not in needy for each in (info.name, *info.aliases)]
    objects = [_component(info, registry.get(info.name), defs) for info in infos]
    whole = {"type": "object", "properties": {"name": {"enum": names}}, "required": ["name"]}
    return {"description": f"A {kind}.", "anyOf": [{"enum": bare}, {**whole, "oneOf": objects}]}


def _component(info: Info, cls: Any, defs: dict[str, Any]) -> dict[str, Any]:
    name = {"enum": [info.name, *info.aliases], "description": info.summary}
    found: dict[str, Any] = {"type": "object", "title": info.name, "description": info.summary}
    if not dataclasses.is_dataclass(cls):
        return found | {"properties": {"name": name}, "required": ["name"]}
    return found | {
        "properties": {"name": name, **_options(cls, info, defs)},
        "required": ["name", *_required(info)],
        "additionalProperties": False,
    }


def _required(info: Info) -> list[str]:
    return [each.name for each in info.parameters if each.default == "required"]


def _section(name: str, cls: Any, defs: dict[str, Any]) -> dict[str, Any]:
    info = describe("section", name, (), cls, "")
    found = {
        "type": "object",
        "description": info.summary,
        "properties": _options(cls, info, defs),
        "additionalProperties": False,
    }
    if name == "sft":
        found["properties"]["schedule"] |= {"$ref": "#/$defs/schedule"}
    return found


def _options(cls: Any, info: Info, defs: dict[str, Any]) -> dict[str, Any]:
    """Schema of each option of a dataclass; shared definitions go to `defs`."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import PydanticJsonSchemaWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        try:
            whole = TypeAdapter(cls).json_schema()
        except PydanticInvalidForJsonSchema:  # an option of a type that only Python can give
            whole = {"properties": {each.name: {} for each in info.parameters}}
    for hint in option_types(cls).values():
        if (nested := section_class(hint)) is not None:
            defs[nested.__name__] = _section(nested.__name__, nested, defs)
    found = {name: _plain(option) for name, option in whole["properties"].items()}
    for name, field in cls.__pydantic_fields__.items():
        choices = getattr(field.validation_alias, "choices", [])
        found |= {each: found[choices[0]] for each in choices if choices[0] in found}
        if name not in found:
            found[name] = found.get(choices[0], {}) if choices else {}
    meanings = {each.name: each.meaning for each in info.parameters}
    for name, option in found.items():
        if text := meanings.get(name):
            option["description"] = text
    return found


def _plain(schema: Any) -> Any:
    """Without the titles that pydantic makes up, and with references to kinds of parts."""
    if isinstance(schema, list):
        return [_plain(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _plain(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
    if MARK in found:
        found["$ref"] = f"#/$defs/{found.pop(MARK)}"
    return found
