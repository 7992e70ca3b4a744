"""Input and index on a real S3 server: index, ask, and nothing to do the second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrag_assets.storage.filesystem import open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.pipeline.workspaces import demo_texts, index, invoke, make_workspace
from tests.s3_server import S3Server

DOCUMENTS = (
    "letters/2032-05-08-verrall-to-courant.txt",
    "news/2032-06-08-quarry-strike.txt",
    "notes/2032-09-06-notice-weight-limit.txt",
)


@pytest.mark.timeout(900)
def test_index_and_ask(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    place = {"endpoint_url": s3_server.endpoint_url, "region": "us-east-1"}
    source = open_filesystem(f"s3://{bucket}/texts", **place)
    texts = demo_texts(*DOCUMENTS)
    for path, text in texts.items():
        source.write(path, text.encode())
    root = make_workspace(
        tmp_path,
        {},
        method="fast",
        extract_graph_nlp={"processes": 1},
        input_storage={"type": "s3", "base_dir": f"s3://{bucket}/texts", **place},
        storage={"base": f"s3://{bucket}/index", **place},
    )
    report = index(root)
    assert report["documents"]["added"] == 3
    assert report["tables"]["documents"] == 3
    assert report["tables"]["entities"] > 0

    question = "How heavy a vehicle may use Market Street?"
    answer = invoke("query", question, "--root", root, "--method", "basic", "--json").json
    assert answer["snapshot"] == report["snapshot"]
    assert answer["citations"]
    for citation in answer["citations"]:
        assert texts[citation["document"]][citation["start"] : citation["end"]] == citation["quote"]

    again = index(root)
    assert again["snapshot"] == report["snapshot"]
    assert again["batches"] == 0
    assert again["documents"] == {"added": 0, "edited": 0, "deleted": 0, "unchanged": 3, "rejected": 0}
    assert not (root / "output").exists()
    assert not (root / "input").exists()
    assert len(SnapshotStore(open_filesystem(f"s3://{bucket}/index", **place)).all()) == 1
