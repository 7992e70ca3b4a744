"""Files, tables and snapshots: each test runs on a local folder and on a real S3-compatible server."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from graphrag_assets.storage import parquet, tables
from graphrag_assets.storage.build import BuildArea, Built
from graphrag_assets.storage.contract import TableContractError
from graphrag_assets.storage.engine import connect
from graphrag_assets.storage.filesystem import FileSystem, StorageError, open_filesystem, require_writable
from graphrag_assets.storage.snapshots import SnapshotError, SnapshotStore
from graphrag_assets.storage.tables import REJECTED_INPUTS
from graphrag_assets.storage.vectors import VectorStore, open_vectors
from tests.s3_server import S3Server


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    if request.param == "local":
        return open_filesystem(str(tmp_path / "base"))
    server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
    return open_filesystem(f"s3://{bucket}/some/prefix", server.endpoint_url)


def rejected(*files: str) -> pa.Table:
    return REJECTED_INPUTS.from_rows([{"file": f, "location": "", "reason": "empty", "detail": "d"} for f in files])


def test_files_come_back_and_list_in_order(storage: FileSystem) -> None:
    storage.write("b/two.bin", b"22")
    storage.write("a.bin", b"1")
    storage.write("b/two.bin", b"333")
    assert [(i.path, i.size) for i in storage.list()] == [("a.bin", 1), ("b/two.bin", 3)]
    assert [i.path for i in storage.list("b")] == ["b/two.bin"]
    assert storage.read("b/two.bin") == b"333"
    assert storage.exists("a.bin")
    storage.delete("a.bin")
    storage.delete("a.bin")
    assert not storage.exists("a.bin")
    assert list(storage.list("nowhere")) == []
    with pytest.raises(FileNotFoundError):
        storage.read("a.bin")


def test_a_copy_keeps_its_content_when_the_first_is_replaced(storage: FileSystem) -> None:
    storage.write("x", b"old")
    storage.copy("x", "kept/x")
    storage.write("x", b"new")
    assert storage.read("kept/x") == b"old"


def test_of_many_creators_one_succeeds(storage: FileSystem) -> None:
    won: list[int] = []

    def create(number: int) -> None:
        try:
            storage.create("log/1", str(number).encode())
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert storage.read("log/1") == str(won[0]).encode()


def test_paths_out_of_the_base_are_refused(tmp_path: Path) -> None:
    local = open_filesystem(str(tmp_path / "base"))
    (tmp_path / "secret").write_text("s")
    with pytest.raises(StorageError, match="leads out"):
        local.read("../secret")
    with pytest.raises(StorageError, match="gopher"):
        open_filesystem("gopher://x")


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("s")
    base = tmp_path / "base"
    base.mkdir()
    (base / "link").symlink_to(tmp_path / "outside")
    (base / "file.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (base / "own.txt").write_text("own")
    assert [i.path for i in open_filesystem(str(base)).list()] == ["own.txt"]


def test_a_local_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for base in ("/proc/no/such/place", str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        place = open_filesystem(base)
        for use in (lambda p: require_writable(p), lambda p: p.create("a", b""), lambda p: p.copy("a", "b/c")):
            with pytest.raises(StorageError, match=r"^storage\.base: .*cannot be written.*set storage\.base") as told:
                use(place)
            assert base in str(told.value)
    with pytest.raises(StorageError, match=r"storage\.base: .*cannot be (read|listed)"):
        SnapshotStore(open_filesystem(str(tmp_path / "file"))).current()
    with pytest.raises(StorageError, match=r"storage\.base: .*cannot be (read|listed)"):
        BuildArea(open_filesystem(str(tmp_path / "file"))).fingerprint("entities")


def test_a_place_that_can_be_written_is_left_as_it_was(storage: FileSystem) -> None:
    storage.write("a", b"1")
    require_writable(storage)
    assert [i.path for i in storage.list()] == ["a"]


def test_an_s3_server_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    place = open_filesystem("s3://bucket/prefix", "http://127.0.0.1:9", setting="input_storage.base_dir")
    told = r"^input_storage\.base_dir: s3://bucket/prefix at .*cannot be reached; check input_storage\.endpoint_url"
    with pytest.raises(StorageError, match=told):
        list(place.list())


@pytest.fixture
def refusing() -> Iterator[HTTPServer]:
    """A server that answers every request with the status and error code in its attribute ``answer``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, code = self.server.answer  # type: ignore[attr-defined]
            body = f"<Error><Code>{code}</Code><Message>told by the server</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_HEAD = do_GET  # noqa: N815 (names that the library looks for)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, "NoSuchBucket"), "there is no such bucket; make the bucket, or set storage.base"),
        ((403, "AccessDenied"), "the server refuses access; give the credentials .* the rights to list, read, write"),
        ((401, "Unauthorized"), "the server refuses access; give the credentials"),
        ((400, "AuthorizationHeaderMalformed"), "check storage.base, storage.endpoint_url, storage.region"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_an_s3_place_that_the_server_refuses(
    refusing: HTTPServer, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str], told: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    refusing.answer = answer  # type: ignore[attr-defined]
    place = open_filesystem("s3://bucket/prefix", f"http://127.0.0.1:{refusing.server_port}")
    for use in (lambda: list(place.list()), lambda: place.write("a", b""), lambda: require_writable(place)):
        with pytest.raises(StorageError, match=rf"^storage\.base: s3://bucket/prefix .*{told}.*{answer[1]}"):
            use()


def test_s3_credentials_without_rights(s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another secret")
    place = open_filesystem(f"s3://{bucket}/prefix", s3_server.endpoint_url)
    for use in (lambda: list(place.list()), lambda: place.read("a"), lambda: require_writable(place)):
        with pytest.raises(StorageError, match=r"^storage\.base: .*refuses access; give the credentials"):
            use()


def test_s3_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StorageError, match=r"^storage\.base: .*no credentials.*AWS_ACCESS_KEY_ID"):
        list(open_filesystem("s3://bucket/prefix", "http://127.0.0.1:9").list())


def test_build_area_keeps_table_and_fingerprint(storage: FileSystem) -> None:
    area = BuildArea(storage)
    assert area.fingerprint("rejected_inputs") is None
    area.write("rejected_inputs", Built(rejected("a.txt", "b.txt"), "f1"))
    assert area.fingerprint("rejected_inputs") == "f1"
    assert area.read("rejected_inputs", columns=["file"])["file"].to_pylist() == ["a.txt", "b.txt"]
    with pytest.raises(FileNotFoundError, match="was not built yet"):
        area.read("entities")


def test_equal_tables_give_equal_bytes() -> None:
    whole = rejected("a", "b", "c")
    in_chunks = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    assert parquet.to_bytes(whole, REJECTED_INPUTS) == parquet.to_bytes(in_chunks, REJECTED_INPUTS)


def test_contracts_are_enforced() -> None:
    with pytest.raises(TableContractError, match=r"missing columns \['detail'\]"):
        REJECTED_INPUTS.conform(rejected("a").drop_columns("detail"))
    with pytest.raises(TableContractError, match="holds 1 nulls"):
        REJECTED_INPUTS.from_rows([{"file": "a", "location": "", "reason": "r"}])


def publish(store: SnapshotStore, *files: str) -> tuple[str, bool]:
    table = rejected(*files)
    data = {"rejected_inputs": parquet.to_bytes(table, REJECTED_INPUTS)}
    manifest, new = store.publish(data, {"rejected_inputs": table.num_rows}, {}, {"method": "fast"})
    return manifest.id, new


def test_a_snapshot_is_published_read_through_duckdb_and_rolled_back(storage: FileSystem) -> None:
    store = SnapshotStore(storage)
    assert store.current() is None
    first, new = publish(store, "a.txt")
    assert new
    assert publish(store, "a.txt") == (first, False)
    second, _ = publish(store, "a.txt", "b.txt")
    assert [m.id for m in store.all()] == [first, second]
    manifest = store.current()
    assert manifest is not None
    assert (manifest.id, manifest.parent) == (second, first)
    uri = storage.uri(manifest.tables["rejected_inputs"].path)
    rows = connect(storage).execute("select file from read_parquet(?) order by file", [uri]).fetchall()
    assert rows == [("a.txt",), ("b.txt",)]
    store.rollback(first)
    assert store.head()[1] == first
    with pytest.raises(SnapshotError, match=second):
        store.get("000009-none")
    with pytest.raises(SnapshotError, match="not a snapshot id"):
        store.get("../../etc")


def test_a_publisher_that_was_overtaken_is_told_and_publishes_nothing(storage: FileSystem) -> None:
    slow, fast = SnapshotStore(storage), SnapshotStore(storage)
    head = slow.head()
    winner, _ = publish(fast, "fast.txt")
    slow.head = lambda: head  # type: ignore[method-assign]
    with pytest.raises(SnapshotError, match="another run published"):
        publish(slow, "slow.txt")
    assert [m.id for m in fast.all()] == [winner]


def vectors(**rows: list[float]) -> pa.Table:
    return tables.embeddings_table("v", 3).from_rows(
        [{"id": k, "window": 0, "vector": v, "text_hash": f"h{k}"} for k, v in rows.items()]
    )


def test_vectors_of_a_batch_are_replaced_and_old_versions_stay(storage: FileSystem) -> None:
    store = VectorStore(storage, "some/model", 3)
    store.write("text_unit_text", vectors(a=[1, 0, 0], b=[0, 1, 0]), "batch-000001")
    store.write("text_unit_text", vectors(c=[0, 0, 1]), "batch-000002")
    before = store.describe("text_unit_text")
    assert before.rows == 3
    store.write("text_unit_text", vectors(b=[0, 0.6, 0.8]), "batch-000001")
    after = store.describe("text_unit_text")
    assert (after.rows, after.sha256 == before.sha256) == (2, False)
    assert store.rows("text_unit_text", "batch-000001")["id"].to_pylist() == ["b"]
    assert open_vectors(storage, before).count_rows() == 3
    store.keep_batches("text_unit_text", ["batch-000001"])
    assert store.rows("text_unit_text")["id"].to_pylist() == ["b"]
    store.write("text_unit_text", vectors(), "batch-000001")
    assert store.describe("text_unit_text").rows == 0


def test_vectors_that_are_as_before_are_not_written(storage: FileSystem) -> None:
    store = VectorStore(storage, "some/model", 3)
    first = store.write("t", vectors(a=[1, 0, 0], b=[0, 1, 0], c=[0, 0, 1]), "x")
    assert store.write("t", vectors(a=[1, 0, 0], b=[0, 1, 0], c=[0, 0, 1]), "x") == first
    before = store.describe("t")
    # Equal hashes stand for equal vectors: what is written for them would not differ, and so is not looked at.
    store.write("t", vectors(a=[0, 0, 1], d=[0, 1, 0], c=[0, 0, 1]), "x")
    after = {row["id"]: row["vector"] for row in store.rows("t").to_pylist()}
    assert after == {"a": [1, 0, 0], "c": [0, 0, 1], "d": [0, 1, 0]}
    assert sorted(open_vectors(storage, before).search().to_arrow()["id"].to_pylist()) == ["a", "b", "c"]


def test_vectors_of_a_text_are_found_whatever_row_and_batch_has_them(storage: FileSystem) -> None:
    store = VectorStore(storage, "some/model", 3)
    windows = tables.embeddings_table("v", 3).from_rows(
        [
            {"id": row, "window": window, "vector": [window, 1, 0], "text_hash": "long"}
            for row in ("b", "a")
            for window in (0, 1)
        ]
    )
    store.write("t", windows, "x")
    store.write("t", vectors(c=[0, 0, 1]), "y")
    found = store.known("t", ["long", "hc", "never"]).to_pylist()
    assert [(row["text_hash"], row["window"], row["vector"]) for row in found] == [
        ("hc", 0, [0, 0, 1]),
        ("long", 0, [0, 1, 0]),
        ("long", 1, [1, 1, 0]),
    ]
    assert store.known("t", []).num_rows == 0


def test_windows_that_a_text_no_longer_has_go(storage: FileSystem) -> None:
    store = VectorStore(storage, "some/model", 3)
    contract = tables.embeddings_table("v", 3)
    rows = [{"id": "a", "window": window, "vector": [window, 1, 0], "text_hash": "old"} for window in (0, 1)]
    store.write("t", contract.from_rows(rows), "x")
    store.write("t", contract.from_rows([{"id": "a", "window": 0, "vector": [0, 0, 1], "text_hash": "new"}]), "x")
    assert [(row["window"], row["vector"]) for row in store.rows("t").to_pylist()] == [(0, [0, 0, 1])]


def test_upkeep_of_a_vector_table_removes_no_version(storage: FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """LanceDB's own upkeep removes versions that are a week old, which older snapshots name."""
    from lancedb.table import LanceTable

    ages = []
    monkeypatch.setattr(LanceTable, "optimize", lambda self, **options: ages.append(options["cleanup_older_than"]))
    monkeypatch.setattr("graphrag_assets.storage.vectors._FRAGMENTS", 0)
    store = VectorStore(storage, "some/model", 3)
    store.write("t", vectors(a=[1, 0, 0]), "x")
    store.describe("t")
    monkeypatch.setattr("graphrag_assets.storage.vectors.INDEX_FROM_ROWS", 1)
    monkeypatch.setattr(LanceTable, "list_indices", lambda self: [type("Index", (), {"columns": ["vector"]})])
    store.describe("t")
    assert len(ages) == 2
    assert all(age.days > 3650 for age in ages)


def test_vector_hash_depends_on_rows_not_on_how_they_came(storage: FileSystem) -> None:
    one, two = VectorStore(storage, "one", 3), VectorStore(storage, "two", 3)
    one.write("t", vectors(a=[1, 0, 0], b=[0, 1, 0]), "x")
    two.write("t", vectors(b=[0, 1, 0]), "y")
    two.write("t", vectors(a=[1, 0, 0]), "z")
    assert one.describe("t").sha256 == two.describe("t").sha256


def _publish_often(base: str, endpoint: str | None, name: str, times: int) -> None:
    """Publish so many snapshots of one's own, going on from whatever another process published meanwhile."""
    store = SnapshotStore(open_filesystem(base, endpoint, "us-east-1"))
    for number in range(times):
        while True:
            try:
                publish(store, f"{name}-{number}.txt")
                break
            except SnapshotError as error:
                assert "another run published" in str(error)  # noqa: PT017


def test_two_processes_that_publish_at_once_lose_nothing(storage: FileSystem) -> None:
    endpoint = getattr(getattr(storage, "place", None), "endpoint", None)
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=_publish_often, args=(storage.base, endpoint, name, 12)) for name in ("one", "two")
    ]
    for process in processes:
        process.start()
    store, seen = SnapshotStore(storage), 0
    while any(process.is_alive() for process in processes):
        current = store.current()  # a reader sees whole snapshots only
        if current is not None:
            assert current.sequence >= seen
            seen = current.sequence
            assert parquet.read_row_count(storage, current.tables["rejected_inputs"].path) == 1
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    entry, _ = store.head()
    assert entry == 24
    every = store.all()
    assert [manifest.sequence for manifest in every] == list(range(1, 25))
    files = {parquet.read_table(storage, m.tables["rejected_inputs"].path)["file"][0].as_py() for m in every}
    assert files == {f"{name}-{number}.txt" for name in ("one", "two") for number in range(12)}
    assert [m.parent for m in every[1:]] == [m.id for m in every[:-1]]
