"""The part of JSON Schema that our schemas use, in a few lines."""

from typing import Any

TYPES = {
    "object": dict,
    "array": (list, tuple),
    "string": str,
    "boolean": bool,
    "null": type(None),
}
BOUNDS = {
    "minimum": lambda x, bound: x >= bound,
    "maximum": lambda x, bound: x <= bound,
    "exclusiveMinimum": lambda x, bound: x > bound,
    "exclusiveMaximum": lambda x, bound: x < bound,
}
KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "default", "type", "enum", "const", "anyOf",
    "oneOf", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
    "maxItems", "if", "then", "else", *BOUNDS,
}  # fmt: skip


def fits(value: Any, schema: Any, root: dict[str, Any]) -> bool:
    """Whether a value obeys a schema; a word that is not known here is an error."""
    if isinstance(schema, bool):
        return schema
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    checks = [_type(value, schema.get("type"))]
    if "$ref" in schema:
        checks.append(fits(value, _target(schema["$ref"], root), root))
    if "enum" in schema:
        checks.append(value in schema["enum"])
    if "const" in schema:
        checks.append(value == schema["const"])
    if "anyOf" in schema:
        checks.append(any(fits(value, each, root) for each in schema["anyOf"]))
    if "oneOf" in schema:
        checks.append(sum(fits(value, each, root) for each in schema["oneOf"]) == 1)
    if "if" in schema:
        branch = "then" if fits(value, schema["if"], root) else "else"
        checks.append(fits(value, schema.get(branch, True), root))
    if isinstance(value, dict):
        checks += _mapping(value, schema, root)
    if isinstance(value, list | tuple):
        checks += _array(value, schema, root)
    if isinstance(value, int | float) and not isinstance(value, bool):
        checks += [test(value, schema[word]) for word, test in BOUNDS.items() if word in schema]
    return all(checks)


def _type(value: Any, name: str | None) -> bool:
    if name is None:
        return True
    if name in ("integer", "number"):
        kinds = int if name == "integer" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def _mapping(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> list[bool]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    return [
        *(name in value for name in schema.get("required", ())),
        *(fits(each, properties.get(name, rest), root) for name, each in value.items()),
    ]


def _array(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> list[bool]:
    first = schema.get("prefixItems", [])
    return [
        schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)),
        *(fits(each, sub, root) for each, sub in zip(value, first, strict=False)),
        *(fits(each, schema.get("items", True), root) for each in value[len(first) :]),
    ]


def _target(ref: str, root: dict[str, Any]) -> Any:
    found: Any = root
    for step in ref.removeprefix("#/").split("/"):
        found = found[step]
    return found
