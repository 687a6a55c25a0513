"""A plan as people read it: text, a Mermaid diagram, or a picture in SVG. Nothing is fetched from anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Link:
    """Where records come from, and how; ``exchange``: through Spark's shuffle."""

    source: str
    strategy: str
    exchange: bool


@dataclass(frozen=True)
class Box:
    """An operator; ``kind`` is source, operator or sink."""

    id: str
    name: str
    kind: str
    level: int
    parallelism: int
    inputs: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Chart:
    """Operators in the order in which records flow."""

    name: str
    boxes: list[Box]
    note: str = ""


def in_flow_order(boxes: list[Box]) -> list[Box]:
    """Level by level; within one, an operator comes after those that it gets records from."""
    waiting = sorted(boxes, key=lambda box: box.level)
    known = {box.id for box in boxes}
    ordered: list[Box] = []
    while waiting:
        there = {box.id for box in ordered}
        ready = [box for box in waiting if {link.source for link in box.inputs} & known <= there] or waiting
        lowest = [box for box in ready if box.level == ready[0].level]
        ordered += lowest
        waiting = [box for box in waiting if box not in lowest]
    return sorted(ordered, key=lambda box: box.level)


def text(chart: Chart) -> str:
    """One paragraph per level: what runs between two exchanges."""
    numbers = {box.id: number for number, box in enumerate(chart.boxes, 1)}
    levels = sorted({box.level for box in chart.boxes})
    width = max((len(box.name) for box in chart.boxes), default=0)
    operators = f"{len(chart.boxes)} operator{'s' if len(chart.boxes) != 1 else ''}"
    lines = [f"{chart.name}: {operators}, {len(levels)} level{'s' if len(levels) != 1 else ''}"]
    lines += [chart.note] if chart.note else []
    for level in levels:
        lines += ["", f"level {level + 1}"]
        for box in (box for box in chart.boxes if box.level == level):
            came = ", ".join(f"{numbers.get(link.source, '?')} {_arrow(link)}" for link in box.inputs)
            row = f"{numbers[box.id]:>4}  {box.name:<{width}}  {box.kind:<8}  ×{box.parallelism}"
            lines.append(f"{row:<{width + 24}}  {f'from {came}' if came else ''}".rstrip())
    return "\n".join(lines)


def _arrow(link: Link) -> str:
    return f"({link.strategy.lower()}{', exchange' if link.exchange else ''})"


def mermaid(chart: Chart) -> str:
    """A diagram in the language that Markdown pages draw."""
    numbers = {box.id: f"n{number}" for number, box in enumerate(chart.boxes, 1)}
    shapes = {"source": ("([", "])"), "sink": ("[[", "]]")}
    lines = ["flowchart LR"]
    for level in sorted({box.level for box in chart.boxes}):
        lines.append(f"  subgraph level{level + 1} [level {level + 1}]")
        for box in (box for box in chart.boxes if box.level == level):
            left, right = shapes.get(box.kind, ("[", "]"))
            label = box.name.replace('"', "#quot;")
            lines.append(f'    {numbers[box.id]}{left}"{label} ×{box.parallelism}"{right}')
        lines.append("  end")
    for box in chart.boxes:
        for link in box.inputs:
            arrow = "==>" if link.exchange else "-->"
            lines.append(f"  {numbers[link.source]} {arrow}|{link.strategy.lower()}| {numbers[box.id]}")
    return "\n".join(lines)


_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _EDGE = 210, 52, 90, 26, 24
_LETTERS = 28
_FILLS = {"source": "#d7ecd9", "sink": "#fbe3cf"}


def svg(chart: Chart) -> str:
    """A picture: levels from left to right, operators of a level below each other."""
    columns: list[list[Box]] = _columns(chart)
    place = {
        box.id: (_EDGE + x * (_WIDTH + _GAP_X), 2 * _EDGE + 20 + y * (_HEIGHT + _GAP_Y))
        for x, column in enumerate(columns)
        for y, box in enumerate(column)
    }
    width = 2 * _EDGE + len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    height = 3 * _EDGE + 20 + max((len(column) for column in columns), default=0) * (_HEIGHT + _GAP_Y)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="13">'
        ),
        f"<title>{escape(chart.name)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#5b6470"/></marker></defs>'
        ),
        f'<text x="{_EDGE}" y="{_EDGE}" font-weight="bold" fill="#1d2630">{escape(chart.name)}</text>',
        f'<text x="{_EDGE}" y="{_EDGE + 18}" fill="#5b6470">{escape(chart.note)}</text>',
        *(_line(place[link.source], place[box.id], link) for box in chart.boxes for link in box.inputs),
        *(_box(place[box.id], box) for box in chart.boxes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _columns(chart: Chart) -> list[list[Box]]:
    """An operator stands to the right of all that it gets records from."""
    depth: dict[str, int] = {}
    for box in chart.boxes:
        depth[box.id] = max((depth.get(link.source, -1) + 1 for link in box.inputs), default=0)
    return [[box for box in chart.boxes if depth[box.id] == x] for x in range(max(depth.values(), default=-1) + 1)]


def _box(at: tuple[int, int], box: Box) -> str:
    x, y = at
    name = box.name if len(box.name) <= _LETTERS else box.name[: _LETTERS - 1] + "…"
    return (
        f'<g><title>{escape(box.name)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
        f'fill="{_FILLS.get(box.kind, "#dfe8f5")}" stroke="#5b6470"/>'
        f'<text x="{x + 12}" y="{y + 21}" fill="#1d2630">{escape(name)}</text>'
        f'<text x="{x + 12}" y="{y + 40}" fill="#5b6470">{box.kind} ×{box.parallelism}, level {box.level + 1}'
        "</text></g>"
    )


def _line(start: tuple[int, int], end: tuple[int, int], link: Link) -> str:
    x1, y1, x2, y2 = start[0] + _WIDTH, start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    dash = "" if link.exchange else ' stroke-dasharray="4 3"'
    return (
        f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" stroke="#5b6470" '
        f'stroke-width="{2 if link.exchange else 1.2}"{dash} marker-end="url(#tip)"/>'
        f'<text x="{middle}" y="{(y1 + y2) // 2 - 6}" text-anchor="middle" font-size="11" fill="#5b6470">'
        f"{escape(link.strategy.lower())}</text>"
    )
