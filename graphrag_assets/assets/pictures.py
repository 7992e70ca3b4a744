"""A small picture of the graph for the pages of its assets."""

from __future__ import annotations

import base64
from html import escape

import pyarrow as pa

#: Entities drawn; a metadata value is stored with every event, so that a picture has to stay small.
MOST_ENTITIES = 18
WIDTH, HEIGHT = 560, 360


def graph_picture(entities: pa.Table, relationships: pa.Table) -> str:
    """The most connected entities and the relationships between them, as a Markdown image (SVG, a few kilobytes)."""
    import networkx as nx

    rows = entities.select(["title", "degree"]).to_pylist()
    top = sorted(rows, key=lambda row: (-row["degree"], row["title"]))[:MOST_ENTITIES]
    graph = nx.Graph()
    graph.add_nodes_from(row["title"] for row in top)
    for row in relationships.select(["source", "target", "weight"]).to_pylist():
        if row["source"] in graph and row["target"] in graph:
            graph.add_edge(row["source"], row["target"], weight=row["weight"])
    if not graph:
        return "The graph is empty."
    places = nx.spring_layout(graph, seed=1, iterations=40)
    point = {
        title: (round(70 + (x + 1) / 2 * (WIDTH - 140)), round(20 + (y + 1) / 2 * (HEIGHT - 40)))
        for title, (x, y) in places.items()
    }
    lines = [
        f'<line x1="{point[a][0]}" y1="{point[a][1]}" x2="{point[b][0]}" y2="{point[b][1]}"/>' for a, b in graph.edges
    ]
    dots = [
        f'<circle cx="{x}" cy="{y}" r="4"/><text x="{x}" y="{y - 6}">{escape(title[:24].title())}</text>'
        for title, (x, y) in point.items()
    ]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="9">'
        f'<g stroke="#b8c4d6">{"".join(lines)}</g><g fill="#3a5a8c" text-anchor="middle">{"".join(dots)}</g></svg>'
    )
    return f"![The most connected entities](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
