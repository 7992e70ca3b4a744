"""What the Dagster project declares, and what its assets refuse."""

from __future__ import annotations

import base64
import re
import warnings
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import dagster as dg
import pyarrow as pa
import pytest

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.assets.fingerprints import INCOMPLETE, STAGE_ASSETS, Fingerprints
from graphrag_assets.assets.lineage import COLUMN_LINEAGE
from graphrag_assets.assets.partitions import all_there, document_batches
from graphrag_assets.assets.pictures import MOST_ENTITIES, graph_picture
from graphrag_assets.assets.resources import Index
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import Built
from graphrag_assets.storage.tables import BATCH_DOCUMENTS, BATCH_TEXT_UNITS


@pytest.fixture
def index(tmp_path: Path) -> Index:
    (tmp_path / "input").mkdir()
    return Index(root=str(tmp_path))


@pytest.fixture
def specs(tmp_path: Path) -> dict[str, dg.AssetSpec]:
    found = build_definitions(load_workspace(tmp_path)).resolve_all_asset_specs()
    return {spec.key.path[-1]: spec for spec in found}


def test_loading_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dg.Definitions.validate_loadable(build_definitions(load_workspace(tmp_path)))


def test_every_asset_says_what_it_is(specs: dict[str, dg.AssetSpec]) -> None:
    for name, spec in specs.items():
        assert spec.description, name
        assert spec.owners, name
        assert spec.kinds, name
        assert spec.group_name not in (None, "default"), name
        if name == "index_snapshot":
            continue
        columns = spec.metadata["dagster/column_schema"].columns
        assert all(column.description for column in columns), name
        assert not any("item: " in column.type or "element: " in column.type for column in columns), name


def test_column_lineage_names_columns_of_assets_upstream(specs: dict[str, dg.AssetSpec]) -> None:
    columns = {
        name: {column.name for column in spec.metadata["dagster/column_schema"].columns}
        for name, spec in specs.items()
        if "dagster/column_schema" in spec.metadata
    }

    def upstream(name: str) -> set[str]:
        direct = {dep.asset_key.path[-1] for dep in specs[name].deps}
        return direct.union(*(upstream(other) for other in direct))

    for name, made_from in COLUMN_LINEAGE.items():
        assert made_from.keys() <= columns[name], name
        for sources in made_from.values():
            for source, column in sources:
                assert column in columns[source], (name, source, column)
                assert source in upstream(name), (name, source)


def test_stages_are_assets(specs: dict[str, dg.AssetSpec]) -> None:
    assert {asset for assets in STAGE_ASSETS.values() for asset in assets} <= specs.keys()
    partitioned = {name for name, spec in specs.items() if spec.partitions_def == document_batches}
    assert {"documents", "text_units", "extraction_status", "text_unit_embeddings"} <= partitioned


def test_a_missing_batch_is_named(index: Index) -> None:
    index.build.write("documents", Built(BATCH_DOCUMENTS.schema.empty_table()), "batch-000001")
    batches = ["batch-000001", "batch-000002"]
    with pytest.raises(dg.Failure, match=r"documents lacks 1 of 2 batches, such as batch-000002.*index_batches"):
        all_there(index.build.ref("documents", batches), batches)
    assert all_there(index.build.ref("documents", batches), batches[:1]).partitions == ("batch-000001",)


def test_what_was_made_from_old_tables_is_marked(index: Index) -> None:
    """Somebody materializes text units alone after the settings of the documents changed."""
    row = {"batch": ["batch-000001"], "document_id": ["d"], "content_hash": ["h"], "language": ["en"]}
    prints = Fingerprints(index.workspace, pa.table(row))
    key = "batch-000001"
    index.build.write("documents", Built(BATCH_DOCUMENTS.schema.empty_table(), "of other settings"), key)
    assert index.stamp(prints, "text_units", key) == prints.batch("text_units", key) + INCOMPLETE
    index.build.write("documents", Built(BATCH_DOCUMENTS.schema.empty_table(), prints.batch("documents", key)), key)
    assert index.stamp(prints, "text_units", key) == prints.batch("text_units", key)
    assert index.stamp(prints, "graph") == prints.corpus("graph") + INCOMPLETE, "nothing was extracted yet"
    index.build.write("text_units", Built(BATCH_TEXT_UNITS.schema.empty_table(), prints.batch("text_units", key)), key)
    assert index.stamp(prints, "extraction", key) == prints.batch("extraction", key)


def _graph(size: int) -> tuple[pa.Table, pa.Table]:
    """A wheel: a hub that knows everybody, and everybody the next one."""
    names = [f"<PERSON> & {i}" for i in range(size)]
    pairs = [(names[0], name) for name in names[1:]] + list(pairwise(names[1:]))
    degrees = [sum(name in pair for pair in pairs) for name in names]
    entities = pa.table({"id": names, "title": names, "type": ["PERSON"] * size, "degree": degrees})
    columns = list(zip(*pairs, strict=True)) if pairs else [[], []]
    relationships = pa.table(
        {
            "source": pa.array(columns[0], pa.string()),
            "target": pa.array(columns[1], pa.string()),
            "weight": pa.array([1.0] * len(pairs), pa.float64()),
        }
    )
    return entities, relationships


@pytest.mark.parametrize("size", [2, 3, 200])
def test_the_picture_is_small_valid_and_repeatable(size: int) -> None:
    entities, relationships = _graph(size)
    picture = graph_picture(entities, relationships)
    assert picture == graph_picture(entities, relationships)
    assert len(picture) < 16_000
    encoded = re.fullmatch(r"!\[[^\]]+\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", picture)
    assert encoded is not None
    root = ElementTree.fromstring(base64.b64decode(encoded[1]))
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(text.startswith("<") for text in texts) == min(size, MOST_ENTITIES)


def test_no_picture_of_nothing() -> None:
    assert graph_picture(*_graph(1)) == "The graph has no relationships."
    assert graph_picture(*_graph(0)) == "The graph has no relationships."
