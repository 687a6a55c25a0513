"""The description of the REST interface as a page that needs nothing else: no script, no file, no internet."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } code, .path { font-family: ui-monospace, monospace; }
details { border-bottom: 1px solid #8884; padding: .35rem 0; } summary { cursor: pointer; }
.method { display: inline-block; width: 4.2rem; font-weight: 600; }
.GET { color: #2a7ab0; } .POST { color: #2c8a4b; } .PATCH { color: #b0742a; }
.note { opacity: .75; margin-left: .75rem; } table { border-collapse: collapse; margin: .5rem 0 .5rem 4.2rem; }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
"""

#: What browsers let the page do: its style is in it.
API_PAGE_MAY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"


def api_page(schema: dict[str, Any]) -> str:
    """A page for the schema of an app."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(_operation(path, method.upper(), operation, schema))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(rows)}" for tag, rows in by_tag.items())
    info = schema["info"]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} REST</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}: REST</h1><p>{escape(info.get('description', ''))}</p>"
        '<p>Every path may also begin with <code>/v1</code>. For programs: <a href="/openapi.json">openapi.json</a></p>'
        f"{sections}</body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    rows = [
        _row(each["name"], f"in the {each['in']}", each.get("description", ""))
        for each in operation.get("parameters", [])
    ]
    content = operation.get("requestBody", {}).get("content", {})
    for name, field in _fields(content.get("application/json", {}).get("schema", {}), schema):
        rows.append(_row(name, "in the body", field))
    table = f"<table>{''.join(rows)}</table>" if rows else "<p>No parameters.</p>"
    return (
        f'<details><summary><span class="method {method}">{method}</span><span class="path">{escape(path)}</span>'
        f'<span class="note">{escape(operation.get("summary", ""))}</span></summary>{table}</details>'
    )


def _row(name: str, where: str, text: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(where)}</td><td>{escape(text)}</td></tr>"


def _fields(body: dict[str, Any], schema: dict[str, Any]) -> list[tuple[str, str]]:
    """The names of a body's fields, with the values that they may have."""
    for option in [body, *body.get("anyOf", [])]:
        reference = option.get("$ref")
        if reference:
            found = schema["components"]["schemas"][reference.rpartition("/")[2]]
            return [(name, _values(field)) for name, field in found.get("properties", {}).items()]
    return []


def _values(field: dict[str, Any]) -> str:
    options = [option for option in field.get("anyOf", [field]) if option.get("type") != "null"]
    return "; ".join(
        ", ".join(map(str, option["enum"])) if "enum" in option else str(option.get("type", "")) for option in options
    )
