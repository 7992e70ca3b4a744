"""A small picture of the graph for the pages of its assets."""

from __future__ import annotations

import base64
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from graphrag_assets.text.names import readable

if TYPE_CHECKING:
    import networkx as nx

#: Entities drawn; a metadata value is stored with every event, so that a picture has to stay small.
MOST_ENTITIES = 26

#: Entities among which they are looked for: the best connected ones of the whole graph.
CANDIDATES = 2000

WIDTH, HEIGHT, MARGIN = 640, 420, 44
FONT_SIZE, LABEL_LENGTH = 10, 24
COLOURS = ("#4f6bed", "#e07b39", "#2a9d6f", "#b5479d", "#c9a227", "#3aa6b9", "#8d6e63", "#d1495b")
OTHER = "#8a94a6"

Box = tuple[float, float, float, float]
Point = tuple[float, float]


def graph_picture(entities: pa.Table, relationships: pa.Table, communities: Mapping[str, int] | None = None) -> str:
    """The best connected entities and the relationships between them, as a Markdown image (SVG, a few kilobytes).

    Args:
        entities: Columns id, title, type and degree.
        relationships: Columns source, target and weight.
        communities: Community by entity id, for the colours; None: colours show the type of an entity.
    """
    graph = _core(entities, relationships)
    if not graph:
        return "The graph has no relationships."
    if communities is None:
        groups = {title: data["type"].capitalize() for title, data in graph.nodes(data=True)}
    else:
        numbers = {title: communities.get(data["id"]) for title, data in graph.nodes(data=True)}
        groups = {title: "" if number is None else f"Community {number}" for title, number in numbers.items()}
    svg = _draw(graph, groups)
    return f"![The best connected entities](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _core(entities: pa.Table, relationships: pa.Table) -> nx.Graph:
    """A connected part of the graph: from the best connected entity on, always the best connected neighbour."""
    import networkx as nx

    top = entities.select(["id", "title", "type", "degree"]).sort_by([("degree", "descending"), ("title", "ascending")])
    rows = top.slice(0, CANDIDATES).to_pylist()
    titles = pa.array([row["title"] for row in rows], pa.string())
    inside = pc.and_(
        pc.is_in(relationships["source"], value_set=titles), pc.is_in(relationships["target"], value_set=titles)
    )
    whole = nx.Graph()
    whole.add_nodes_from((row["title"], row) for row in rows)
    for edge in relationships.select(["source", "target", "weight"]).filter(inside).to_pylist():
        whole.add_edge(edge["source"], edge["target"], weight=edge["weight"])
    part: set[str] = max(nx.connected_components(whole), key=lambda titles: (len(titles), min(titles)), default=set())
    if len(part) < 2:
        return nx.Graph()
    rank = {row["title"]: i for i, row in enumerate(rows)}
    queue = [min(rank[title] for title in part)]
    taken: list[str] = []
    seen = set(queue)
    while queue and len(taken) < MOST_ENTITIES:
        taken.append(rows[heapq.heappop(queue)]["title"])
        for neighbour in {rank[title] for title in whole[taken[-1]]} - seen:
            seen.add(neighbour)
            heapq.heappush(queue, neighbour)
    graph = nx.Graph()
    graph.add_nodes_from((title, whole.nodes[title]) for title in taken)
    graph.add_edges_from(sorted((min(a, b), max(a, b), data) for a, b, data in whole.subgraph(taken).edges(data=True)))
    return graph


def _draw(graph: nx.Graph, groups: Mapping[str, str]) -> str:
    """The picture as SVG: size of a dot by degree, width of a line by weight, colour by group."""
    points = _layout(graph)
    most = max(data["degree"] for _, data in graph.nodes(data=True)) or 1
    radius = {title: round(3.5 + 6 * (data["degree"] / most) ** 0.5, 1) for title, data in graph.nodes(data=True)}
    heaviest = max((data["weight"] for _, _, data in graph.edges(data=True)), default=0) or 1
    named = [name for name, _ in sorted(Counter(groups.values()).items(), key=lambda item: (-item[1], item[0])) if name]
    colours = dict(zip(named, COLOURS, strict=False))
    width = {(a, b): 0.7 + 2 * max(data["weight"], 0) / heaviest for a, b, data in graph.edges(data=True)}
    lines = "".join(
        f'<path d="M{_xy(points[a])}L{_xy(points[b])}" stroke-width="{wide:.1f}"/>' for (a, b), wide in width.items()
    )
    dots = "".join(
        f'<circle cx="{points[title][0]:.0f}" cy="{points[title][1]:.0f}" r="{radius[title]}" '
        f'fill="{colours.get(groups[title], OTHER)}"/>'
        for title in graph
    )
    labels = "".join(f'<text x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>' for text, (x, y) in _labels(points, radius))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="{FONT_SIZE}"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<g stroke="#c3ccd9">{lines}</g><g stroke="#fff">{dots}</g>'
        f'<g fill="#1f2937" text-anchor="middle" stroke="#fff" stroke-width="3" paint-order="stroke">{labels}</g>'
        f"{_legend(colours)}</svg>"
    )


def _xy(point: Point) -> str:
    return f"{point[0]:.0f} {point[1]:.0f}"


def _layout(graph: nx.Graph) -> dict[str, Point]:
    """Places in the picture; equal weights, so that a heavy relationship does not put two dots on one place."""
    import networkx as nx

    places = nx.spring_layout(graph, weight=None, seed=0, iterations=300)
    columns = list(zip(*places.values(), strict=True))
    low = [min(column) for column in columns]
    span = [(max(column) - min(column)) or 1.0 for column in columns]
    size = (WIDTH - 2 * MARGIN - 40, HEIGHT - 2 * MARGIN)
    return {
        title: (MARGIN + 20 + (x - low[0]) / span[0] * size[0], MARGIN + (y - low[1]) / span[1] * size[1])
        for title, (x, y) in places.items()
    }


def _labels(points: Mapping[str, Point], radius: Mapping[str, float]) -> Iterable[tuple[str, Point]]:
    """Where each label stands: above, below or beside its dot, wherever it covers least."""
    taken: list[Box] = [(x - radius[t], y - radius[t], x + radius[t], y + radius[t]) for t, (x, y) in points.items()]
    for title, (x, y) in points.items():
        text = readable(title if len(title) <= LABEL_LENGTH else title[: LABEL_LENGTH - 1] + "…")
        half, away = len(text) * FONT_SIZE * 0.27, radius[title] + 3
        spots = [(x, y - away), (x, y + away + FONT_SIZE - 2), (x + away + half, y + 3), (x - away - half, y + 3)]
        boxes = [(a - half, b - FONT_SIZE, a + half, b + 2) for a, b in spots]
        best = min(range(len(spots)), key=lambda i: (_hidden(boxes[i], taken), i))
        taken.append(boxes[best])
        yield text, spots[best]


def _hidden(box: Box, taken: Iterable[Box]) -> float:
    """Area of a box that others or the edge of the picture cover."""

    def common(low: int, high: int, other: Box) -> float:
        return max(0.0, min(box[high], other[high]) - max(box[low], other[low]))

    overlaps = sum(common(0, 2, other) * common(1, 3, other) for other in taken)
    outside = max(0.0, -box[0]) + max(0.0, box[2] - WIDTH) + max(0.0, -box[1]) + max(0.0, box[3] - HEIGHT)
    return round(overlaps + outside * FONT_SIZE, 1)


def _legend(colours: Mapping[str, str]) -> str:
    x = 8.0
    parts: list[Any] = []
    for name, colour in colours.items():
        text = name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"
        if x + 14 + len(text) * 6 > WIDTH:
            break
        parts.append(
            f'<circle cx="{x + 4:.0f}" cy="{HEIGHT - 9}" r="4" fill="{colour}"/>'
            f'<text x="{x + 12:.0f}" y="{HEIGHT - 5}" fill="#475569">{escape(text)}</text>'
        )
        x += 24 + len(text) * 6
    return "".join(parts)
