"""Input, index and cache on a real S3 server: index, ask, edit, and nothing to do the second time."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from graphrag_assets.input.inventory import file_changes, take_inventory
from graphrag_assets.settings import Settings
from graphrag_assets.storage.filesystem import FileSystem, open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from tests.llmsim_server import LlmSim
from tests.pipeline.workspaces import demo_texts, index, invoke, make_workspace, simulated
from tests.s3_proxy import S3Proxy
from tests.s3_server import S3Server

DOCUMENTS = (
    "letters/2032-05-08-verrall-to-courant.txt",
    "news/2032-06-08-quarry-strike.txt",
    "notes/2032-09-06-notice-weight-limit.txt",
)

NOTHING = {"added": 0, "edited": 0, "deleted": 0, "unchanged": 0, "rejected": 0}


def places(bucket: str, server: S3Server | S3Proxy) -> dict[str, Any]:
    """Settings of a workspace that has nothing on its own disk but settings and caches."""
    place = {"endpoint_url": server.endpoint_url, "region": "us-east-1"}
    return {
        "input_storage": {"type": "s3", "base_dir": f"s3://{bucket}/texts", **place},
        "storage": {"base": f"s3://{bucket}/index", **place},
    }


def content(storage: FileSystem) -> dict[str, str]:
    """Hashes of the published tables and of the vector tables."""
    current = SnapshotStore(storage).current()
    assert current is not None
    tables = {name: hashlib.sha256(storage.read(file.path)).hexdigest() for name, file in current.tables.items()}
    return tables | {name: vectors.sha256 for name, vectors in current.vectors.items()}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_index_ask_and_edit(tmp_path: Path, s3_proxy: S3Proxy, bucket: str) -> None:
    source = open_filesystem(f"s3://{bucket}/texts", s3_proxy.endpoint_url)
    texts = demo_texts(*DOCUMENTS)
    for path, text in texts.items():
        source.write(path, text.encode())
    fast = {"method": "fast", "extract_graph_nlp": {"processes": 1}}
    root = make_workspace(tmp_path / "root", {}, **fast, **places(bucket, s3_proxy))
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

    s3_proxy.forget()
    again = index(root)
    assert again["snapshot"] == report["snapshot"]
    assert again["batches"] == 0
    assert again["documents"] == NOTHING | {"unchanged": 3}
    read = [request for request in s3_proxy.requests if request.path.startswith(f"/{bucket}/texts/")]
    assert read == [], "entity tags tell that nothing changed"
    assert s3_proxy.count()["PUT"] == 0
    assert not (root / "output").exists()
    assert not (root / "input").exists()
    storage = open_filesystem(f"s3://{bucket}/index", s3_proxy.endpoint_url)
    assert len(SnapshotStore(storage).all()) == 1

    source.write(DOCUMENTS[0], texts[DOCUMENTS[0]].replace("Verrall", "Verrell").encode())
    source.copy(DOCUMENTS[1], "renamed.txt")
    source.delete(DOCUMENTS[1])
    source.delete(DOCUMENTS[2])
    edited = index(root)
    assert edited["documents"] == NOTHING | {"added": 1, "edited": 1, "deleted": 2}
    other = make_workspace(
        tmp_path / "other",
        {},
        **fast,
        **places(bucket, s3_proxy)
        | {"storage": {"base": f"s3://{bucket}/other", "endpoint_url": s3_proxy.endpoint_url}},
    )
    index(other)
    ours, fresh = content(storage), content(open_filesystem(f"s3://{bucket}/other", s3_proxy.endpoint_url))
    of_communities = {name for name in ours if "communit" in name or name == "row_numbers"}
    assert {n: h for n, h in ours.items() if n not in of_communities} == {
        n: h for n, h in fresh.items() if n not in of_communities
    }


def test_a_look_at_many_objects_is_cheap(s3_proxy: S3Proxy, bucket: str) -> None:
    """Ten thousand objects: eleven requests tell that nothing changed; what changed is read, and nothing else."""
    from concurrent.futures import ThreadPoolExecutor

    direct = open_filesystem(f"s3://{bucket}/texts", f"http://{s3_proxy.target.netloc}")
    names = [f"{i % 100:02}/{i:05}.txt" for i in range(10_000)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: direct.write(name, f"Ada Finch wrote letter {name}.".encode()), names))
    source = open_filesystem(f"s3://{bucket}/texts", s3_proxy.endpoint_url)
    settings = Settings()
    few = Settings.model_validate({"input": {"file_pattern": "^0[0-4]/"}})
    seen = take_inventory(source, few)
    assert seen.changes.added == 500
    s3_proxy.forget()
    assert file_changes(source, few, seen) == {"new": 0, "changed": 0, "gone": 0}
    assert s3_proxy.count()["LIST"] <= 11
    assert s3_proxy.count()["GET"] == 0
    s3_proxy.forget()
    direct.write(names[0], b"Another text.")
    direct.write(names[1], f"Ada Finch wrote letter {names[1]}.".encode())
    direct.delete(names[2])
    changes = take_inventory(source, few, seen).changes
    assert (changes.edited, changes.deleted, changes.unchanged) == (1, 1, 498)
    assert [r.path for r in s3_proxy.requests if r.kind == "GET"] == [f"/{bucket}/texts/{names[0]}"], (
        "an object that was written again with the same bytes has the same tag"
    )
    assert file_changes(source, settings, seen)["new"] == 9_500


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_host_has_what_another_one_paid_for(tmp_path: Path, s3_server: S3Server, bucket: str, llmsim: LlmSim) -> None:
    source = open_filesystem(f"s3://{bucket}/texts", s3_server.endpoint_url)
    for path, text in demo_texts(*DOCUMENTS).items():
        source.write(path, text.encode())
    shared = {"cache": {"shared": f"s3://{bucket}/cache"}}
    everything = {**simulated(llmsim), **shared, **places(bucket, s3_server)}
    first = index(make_workspace(tmp_path / "a", {}, **everything))
    assert first["llm"]["calls"] > 0
    elsewhere = {**everything, "storage": everything["storage"] | {"base": f"s3://{bucket}/second"}}
    second = index(make_workspace(tmp_path / "b", {}, **elsewhere))
    assert second["llm"]["calls"] == 0
    assert second["snapshot"][6:] == first["snapshot"][6:], "equal content"
