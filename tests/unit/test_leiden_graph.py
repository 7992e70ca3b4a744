"""The graph beneath the clustering."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from graphrag_assets.indexing.leiden import Graph

NODES = 24


@settings(max_examples=200, deadline=None)
@given(st.integers(1, NODES), st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40))
def test_components_are_those_of_scipy(nodes: int, pairs: list[tuple[int, int]]) -> None:
    ends = np.array([(a % nodes, b % nodes) for a, b in pairs], np.int64).reshape(-1, 2)
    graph = Graph.from_edges(nodes, ends[:, 0], ends[:, 1], np.ones(len(ends)))
    matrix = csr_array((graph.data, graph.indices, graph.indptr), shape=(nodes, nodes))
    assert graph.components().tolist() == connected_components(matrix, directed=False)[1].tolist()


def test_a_long_path_is_one_component() -> None:
    places = np.random.default_rng(3).permutation(20_000)
    graph = Graph.from_edges(len(places), places[:-1], places[1:], np.ones(len(places) - 1))
    assert not graph.components().any()
