from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from graphrag_assets.query import NoSnapshotError, QueryError, open_index
from graphrag_assets.storage import tables
from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.vectors import VectorStore
from tests.published import HashEmbedder, publish
from tests.unit.query_doubles import small_index, small_rows

pytestmark = pytest.mark.storage


def test_nothing_published_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(NoSnapshotError, match="run graphrag-assets index first"):
        open_index(str(tmp_path))


def test_unknown_snapshot_names_those_that_exist(tmp_path: Path) -> None:
    known = publish(tmp_path, small_rows()).id
    with pytest.raises(QueryError, match=known):
        open_index(str(tmp_path), "000009-no-such")


def test_an_older_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    first = publish(tmp_path, small_rows()).id
    rows = small_rows()
    rows["entities"][0]["description"] = "changed"
    second = publish(tmp_path, rows).id
    old, new = open_index(str(tmp_path), first), open_index(str(tmp_path))
    assert new.snapshot == second != first
    sql = "select description from entities where human_readable_id = 0"
    assert old.rows(sql) != new.rows(sql) == [{"description": "changed"}]


def test_every_table_has_a_view_and_an_absent_one_is_empty(tmp_path: Path) -> None:
    index = small_index(tmp_path)
    for table in tables.PUBLISHED:
        assert index.rows(f'select count(*) as n from "{table.name}"') == [{"n": index.count(table.name)}]
    rows = small_rows()
    del rows["covariates"]
    assert small_index(tmp_path / "b", rows).rows("select id, subject_id from covariates") == []


def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    vectors = small_index(tmp_path).vectors(tables.ENTITY_VECTORS)
    vectors.check(HashEmbedder.model, HashEmbedder.dimension)
    with pytest.raises(QueryError, match="hashed-words"):
        vectors.check("another-model")
    with pytest.raises(QueryError, match="other"):
        vectors.check("other", 64)
    with pytest.raises(QueryError, match="no vectors 'missing'"):
        small_index(tmp_path / "b").vectors("missing")


def test_several_vectors_of_one_row_count_once(tmp_path: Path) -> None:
    """Windows of a long text are rows with the same id: the best one counts, and k different rows come back."""
    index = small_index(tmp_path)
    store = VectorStore(open_filesystem(str(tmp_path / "output")), HashEmbedder.model, HashEmbedder.dimension)
    texts = ["mill", "mill mill", "mill river", "mill river", "river", "sea"]
    ids = ["a", "a", "a", "b", "c", "d"]
    rows = pa.table(
        {
            "id": ids,
            "window": pa.array([0, 1, 2, 0, 0, 0], pa.int32()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(HashEmbedder().encode(texts).ravel()), 64),
            "text_hash": [""] * len(ids),
        }
    )
    store.write("windows", rows)
    index.manifest.vectors["windows"] = store.describe("windows")  # type: ignore[index]
    hits = index.vectors("windows").nearest(HashEmbedder().encode(["mill"])[0].tolist(), 3)
    assert [hit.id for hit in hits] == ["a", "b", "c"]
    assert hits[0].score == pytest.approx(1.0, abs=1e-3)
    allowed = index.vectors("windows").nearest([1.0] * 64, 3, allowed={"c", "d"})
    assert {hit.id for hit in allowed} == {"c", "d"}


@pytest.mark.local_disk
def test_importing_and_opening_needs_neither_dagster_nor_pandas(tmp_path: Path) -> None:
    publish(tmp_path, small_rows())
    code = (
        "import sys; from graphrag_assets.query import open_index; "
        "heavy = {'dagster', 'pandas', 'lancedb', 'litellm', 'spacy', 'onnxruntime'}; "
        f"open_index({str(tmp_path)!r}).rows('select count(*) from entities'); "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
