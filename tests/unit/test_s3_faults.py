"""An object store that fails as real ones do: what may pass is repeated, what lasts is told, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from graphrag_assets import object_store
from graphrag_assets.storage import parquet
from graphrag_assets.storage.engine import connect, telling
from graphrag_assets.storage.failures import may_pass
from graphrag_assets.storage.filesystem import FileSystem, StorageError, open_filesystem
from graphrag_assets.storage.snapshots import SnapshotStore
from graphrag_assets.storage.tables import REJECTED_INPUTS
from graphrag_assets.storage.vectors import VectorStore, open_vectors
from tests.s3_proxy import Fault, Request, S3Proxy
from tests.s3_server import SECRET
from tests.unit.test_storage import publish, rejected, vectors


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not pass is given up after a second, not after a minute."""
    monkeypatch.setattr(object_store, "MAX_RETRIES", 3)
    monkeypatch.setattr(object_store, "RETRY_SECONDS", 10)


@pytest.fixture
def place(s3_proxy: S3Proxy, bucket: str) -> FileSystem:
    return open_filesystem(f"s3://{bucket}/prefix", s3_proxy.endpoint_url, "us-east-1")


def first(
    count: int, fault: Fault, wanted: Callable[[Request], bool] = lambda _: True
) -> Callable[[Request], Fault | None]:
    """A fault that befalls the first requests of a kind."""
    lock, left = threading.Lock(), [count]

    def decide(request: Request) -> Fault | None:
        with lock:
            if not wanted(request) or not left[0]:
                return None
            left[0] -= 1
            return fault

    return decide


PASSING = [
    Fault("status", 500),
    Fault("status", 503, "SlowDown"),
    Fault("reset"),
    Fault("lost"),
    Fault("slow", seconds=1.0),
]


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: f"{fault.kind}-{fault.status}")
def test_what_passes_is_not_noticed(place: FileSystem, s3_proxy: S3Proxy, fault: Fault) -> None:
    place.write("before", b"0")
    uses: list[Callable[[], object]] = [
        lambda: place.write("a", b"1"),
        lambda: place.read("before"),
        lambda: [info.path for info in place.list()],
        lambda: place.copy("before", "copy"),
        lambda: place.exists("before"),
        lambda: place.create("new", b"2"),
        lambda: place.delete("before"),
    ]
    for use in uses:
        s3_proxy.fault = first(2, fault)
        use()
    s3_proxy.fault = lambda _: None
    assert {info.path: place.read(info.path) for info in place.list()} == {"a": b"1", "copy": b"0", "new": b"2"}


def test_an_answer_that_breaks_off_is_read_again(place: FileSystem, s3_proxy: S3Proxy) -> None:
    data = bytes(range(256)) * 4096
    place.write("long", data)
    s3_proxy.fault = first(1, Fault("cut"), lambda request: request.method == "GET")
    assert place.read("long") == data


@pytest.mark.parametrize("fault", [Fault("status", 500), Fault("lost"), Fault("reset")], ids=lambda f: f.kind)
def test_of_two_writers_one_succeeds_though_answers_are_lost(
    place: FileSystem, s3_proxy: S3Proxy, fault: Fault
) -> None:
    """Whoever created the file is told so, though the server refused to create it again; the other one is not."""
    s3_proxy.fault = first(1, fault, lambda request: request.conditional)
    place.create("log/1", b"first")
    s3_proxy.fault = first(1, fault, lambda request: request.conditional)
    with pytest.raises(FileExistsError):
        place.create("log/1", b"second")
    assert place.read("log/1") == b"first"


def test_a_snapshot_whose_publication_is_not_answered_is_published_once(place: FileSystem, s3_proxy: S3Proxy) -> None:
    store = SnapshotStore(place)
    s3_proxy.fault = first(1, Fault("lost"), lambda request: request.conditional)
    snapshot, new = publish(store, "a.txt")
    assert new
    assert store.head() == (1, snapshot)
    assert [m.id for m in store.all()] == [snapshot]


def through_duckdb(place: FileSystem, file: str) -> object:
    with telling():
        return connect(place).execute("select * from read_parquet(?)", [place.uri(file)]).fetchall()


LASTING = [
    (Fault("status", 500), "the server does not answer as it should; run again when it does", True),
    (Fault("status", 403, "AccessDenied"), "the server refuses access; give the credentials", False),
    (Fault("reset"), "the server cannot be reached; check storage.endpoint_url", True),
]


@pytest.mark.parametrize(("fault", "told", "passes"), LASTING, ids=lambda value: getattr(value, "kind", ""))
def test_what_lasts_is_told_and_what_is_published_stays(
    place: FileSystem, s3_proxy: S3Proxy, fault: Fault, told: str, passes: bool
) -> None:
    """Whatever reads or writes: the error names the setting, the cause and the mend, and holds no secret."""
    store = SnapshotStore(place)
    snapshot, _ = publish(store, "a.txt")
    manifest = store.get(snapshot)
    embedded = VectorStore(place, "model", 3)
    embedded.write("t", vectors(a=[1, 0, 0]))
    described = embedded.describe("t")
    file = manifest.tables["rejected_inputs"].path
    uses: dict[str, Callable[[], object]] = {
        "list": lambda: list(place.list()),
        "read": lambda: place.read(file),
        "write": lambda: place.write("x", b""),
        "create": lambda: place.create("y", b""),
        "copy": lambda: place.copy(file, "z"),
        "exists": lambda: place.exists(file),
        "delete": lambda: place.delete(file),
        "footer": lambda: parquet.read_row_count(place, file),
        "table": lambda: parquet.read_table(place, file),
        "publish": lambda: publish(store, "a.txt", "b.txt"),
        "duckdb": lambda: through_duckdb(place, file),
        "vectors": lambda: open_vectors(place, described).count_rows(),
        "write vectors": lambda: VectorStore(place, "model", 3).write("t", vectors(b=[0, 1, 0])),
        "describe vectors": lambda: VectorStore(place, "model", 3).describe("t"),
    }
    s3_proxy.fault = lambda _: fault
    wrong = {}
    for name, use in uses.items():
        with pytest.raises(Exception) as caught:  # noqa: PT011
            use()
        text = str(caught.value)
        if (
            f"storage.base: {place.base}" not in text
            or told not in text
            or may_pass(caught.value) is not (passes and name != "duckdb")
        ):
            wrong[name] = f"{type(caught.value).__name__}: {text[:600]}"
        assert SECRET not in text
        assert "Signature=" not in text
    s3_proxy.fault = lambda _: None
    assert wrong == {}
    assert store.current() == manifest
    assert [m.id for m in store.all()] == [snapshot]
    assert parquet.read_table(place, file).num_rows == 1
    assert open_vectors(place, described).count_rows() == 1


def test_a_file_that_is_half_sent_never_appears(place: FileSystem, s3_proxy: S3Proxy) -> None:
    """A large file travels in parts; where they cannot all be sent, the old one stays."""
    large = b"0123456789abcdef" * 1_000_000
    place.write("file", b"old")
    s3_proxy.fault = lambda r: Fault("status", 500) if "partNumber=3" in r.query else None
    with pytest.raises(StorageError, match="does not answer as it should"):
        place.write("file", large)
    assert place.read("file") == b"old"
    s3_proxy.fault = lambda _: None
    place.write("file", large)
    assert place.read("file") == large


def test_tables_come_back_whole(place: FileSystem, s3_proxy: S3Proxy) -> None:
    table = rejected(*(f"{i:05}.txt" for i in range(5000)))
    place.write("t.parquet", parquet.to_bytes(table, REJECTED_INPUTS))
    s3_proxy.fault = first(2, Fault("cut"), lambda request: request.method == "GET")
    assert parquet.read_table(place, "t.parquet", ["file"])["file"] == pa.chunked_array(table["file"].chunks)
