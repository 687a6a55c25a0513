"""The type that a JSON schema describes: objects and arrays of fixed length are rows, all numbers are BIG_DEC."""

from __future__ import annotations

import json
from typing import Any

from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import ConfigurationError, UnsupportedFeatureError

_COMBINING = ("allOf", "anyOf", "not", "extends", "disallow")
_STRING_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}


def type_of_json_schema(text: str) -> TypeInformation:
    """Follows references within the document; ``null`` next to another type has no effect: every field may be null.

    :raises ConfigurationError: if it is no JSON schema
    :raises UnsupportedFeatureError: if there is no type for what it describes
    """
    try:
        root = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"The JSON schema is not JSON: {error}. Names need double quotes.") from None
    found = _type_of(root, root, "#", ())
    if found is None:
        raise UnsupportedFeatureError("The JSON schema describes nothing but null, and there is no such type.")
    return found


def _type_of(node: Any, root: Any, place: str, followed: tuple[str, ...]) -> TypeInformation | None:
    """The type, or None for null."""
    if not isinstance(node, dict):
        raise ConfigurationError(f"JSON schema, {place}: an object is needed, got {node!r}")
    for key in _COMBINING:
        if key in node:
            raise UnsupportedFeatureError(f"JSON schema, {place}: '{key}' can't become a type; describe one type only.")
    found: list[TypeInformation | None] = []
    reference = node.get("$ref")
    if "type" in node:
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        found += [_type_of_kind(kind, node, root, place, followed) for kind in kinds]
    elif isinstance(reference, str) and "oneOf" not in node:
        if reference in followed:
            raise UnsupportedFeatureError(f"JSON schema, {place}: {reference} contains itself, which a row can't.")
        found.append(_type_of(_referred(reference, root, place), root, reference, (*followed, reference)))
    for index, choice in enumerate(node.get("oneOf", ())):
        found.append(_type_of(choice, root, f"{place}/oneOf/{index}", followed))
    if not found:
        raise ConfigurationError(f"JSON schema, {place}: there is no 'type'")
    types = [one for index, one in enumerate(found) if one is not None and one not in found[:index]]
    if len(types) > 1:
        raise UnsupportedFeatureError(
            f"JSON schema, {place}: {' or '.join(map(str, types))} can't be one type; only null may be added to a type."
        )
    return types[0] if types else None


def _type_of_kind(
    kind: Any, node: dict[str, Any], root: Any, place: str, followed: tuple[str, ...]
) -> TypeInformation | None:
    if kind == "null":
        return None
    if kind == "boolean":
        return Types.BOOLEAN()
    if kind in ("number", "integer"):
        return Types.BIG_DEC()
    if kind == "string":
        return _string_type(node, place)
    if kind == "object":
        return _object_type(node, root, place, followed)
    if kind == "array":
        return _array_type(node, root, place, followed)
    raise ConfigurationError(f"JSON schema, {place}: unknown type {kind!r}")


def _string_type(node: dict[str, Any], place: str) -> TypeInformation:
    if "format" in node:
        return _STRING_FORMATS.get(node["format"], Types.STRING)()
    if "contentEncoding" not in node:
        return Types.STRING()
    if node["contentEncoding"] != "base64":
        raise UnsupportedFeatureError(
            f"JSON schema, {place}: contentEncoding {node['contentEncoding']!r} is not supported, only 'base64' is."
        )
    return Types.PRIMITIVE_ARRAY(Types.BYTE())


def _object_type(node: dict[str, Any], root: Any, place: str, followed: tuple[str, ...]) -> TypeInformation:
    if node.get("additionalProperties") is True:
        raise UnsupportedFeatureError(f"JSON schema, {place}: a row can't have 'additionalProperties'.")
    fields = {
        name: _field_type(inner, root, f"{place}/properties/{name}", followed)
        for name, inner in node.get("properties", {}).items()
    }
    return Types.ROW_NAMED(list(fields), list(fields.values()))


def _array_type(node: dict[str, Any], root: Any, place: str, followed: tuple[str, ...]) -> TypeInformation:
    items = node.get("items")
    if isinstance(items, dict):
        element = _field_type(items, root, f"{place}/items", followed)
        return Types.BASIC_ARRAY(element) if element == Types.STRING() else Types.OBJECT_ARRAY(element)
    if not isinstance(items, list):
        raise ConfigurationError(f"JSON schema, {place}: an array needs 'items'")
    if node.get("additionalItems") is True:
        raise UnsupportedFeatureError(f"JSON schema, {place}: a row can't have 'additionalItems'.")
    return Types.ROW([_field_type(inner, root, f"{place}/items/{i}", followed) for i, inner in enumerate(items)])


def _field_type(node: Any, root: Any, place: str, followed: tuple[str, ...]) -> TypeInformation:
    found = _type_of(node, root, place, followed)
    if found is None:
        raise UnsupportedFeatureError(f"JSON schema, {place}: there is no type for null alone.")
    return found


def _referred(reference: str, root: Any, place: str) -> Any:
    if not reference.startswith("#"):
        raise UnsupportedFeatureError(
            f"JSON schema, {place}: '$ref' {reference!r} leaves the document; only '#/…' is supported."
        )
    node = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or name not in node:
            raise ConfigurationError(f"JSON schema, {place}: there is no {reference}")
        node = node[name]
    return node
