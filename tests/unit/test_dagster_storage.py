"""The blocks for dagster.yaml in docs/storage.md do what the page says: logs on S3, history in PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.pipeline.workspaces import environment, fresh_process, make_workspace
from tests.s3_server import S3Server

#: Where the server is, as the page says.
_PG = {
    "DAGSTER_PG_HOST": "127.0.0.1",
    "DAGSTER_PG_DB": "postgres",
    "DAGSTER_PG_USERNAME": "dagster",
    "DAGSTER_PG_PASSWORD": "any",
}

PAGE = Path(__file__).resolve().parents[2] / "docs" / "storage.md"


def block(key: str) -> dict[str, Any]:
    """The documented block of dagster.yaml that begins with a key."""
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        value: dict[str, Any] = yaml.safe_load(text)
        if key in value and ("module" in value[key] or "postgres" in value[key]):
            return value
    raise AssertionError(f"docs/storage.md has no block {key}")


#: A process of its own, whose output is that of a terminal and not of pytest.
_STEP = """
import sys
import dagster as dg
from pathlib import Path
from graphrag_assets.automation.instance import open_instance
from graphrag_assets.settings_file import load_workspace

@dg.asset
def speaks() -> None:
    print("a word on standard output", flush=True)

with open_instance(load_workspace(sys.argv[1])) as instance:
    result = dg.materialize([speaks], instance=instance)
    (captured,) = [e.logs_captured_data for e in result.all_events if e.event_type_value == "LOGS_CAPTURED"]
    Path(sys.argv[2]).write_text(result.run_id + " " + captured.file_key)
"""


def run_a_step(root: Path, **variables: str) -> tuple[str, str]:
    """Materialize an asset that prints, in the Dagster instance of a workspace; returns the run and the key of its log."""
    told = root / "told"
    command = [sys.executable, "-c", _STEP, str(root), str(told)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**variables), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    run_id, file_key = told.read_text().split()
    return run_id, file_key


@contextmanager
def opened(root: Path, **variables: str) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of a workspace."""
    from graphrag_assets.automation.instance import open_instance
    from graphrag_assets.settings_file import load_workspace

    with fresh_process():
        os.environ |= variables
        with open_instance(load_workspace(root)) as instance:
            yield instance


def test_logs_of_steps_on_s3(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    settings = block("compute_logs")
    settings["compute_logs"]["config"] |= {"bucket": bucket, "endpoint_url": s3_server.endpoint_url, "use_ssl": False}
    root = make_workspace(tmp_path, {})
    (root / "dagster.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    import boto3

    run_id, file_key = run_a_step(root)
    with opened(root) as instance:
        data = instance.compute_log_manager.get_log_data([run_id, "compute_logs", file_key])
    assert b"a word on standard output" in (data.stdout or b"")
    client = boto3.client("s3", endpoint_url=s3_server.endpoint_url, region_name="us-east-1")
    names = [item["Key"] for item in client.list_objects_v2(Bucket=bucket, Prefix="dagster-logs/")["Contents"]]
    assert any(run_id in name and name.endswith(".out") for name in names)


def _program(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[int]:
    """A PostgreSQL server on a free port."""
    initdb, server = _program("initdb"), _program("postgres")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL is not installed")
    if importlib.util.find_spec("dagster_postgres") is None:
        pytest.skip("dagster-postgres is not installed: pip install dagster-postgres")
    user = "postgres" if os.geteuid() == 0 else None  # it does not run as root
    if user is not None and user not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder = Path(os.path.realpath(tmp_path)) / "pg"
    folder.mkdir()
    if user is not None:
        shutil.chown(folder, user)
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plain = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [initdb, "-D", str(folder / "data"), "-U", "dagster", "--auth=trust"],
        user=user, env=plain, check=True, capture_output=True, cwd="/",
    )  # fmt: skip
    process = subprocess.Popen(
        [server, "-D", str(folder / "data"), "-p", str(port), "-h", "127.0.0.1", "-k", ""],
        user=user, env=plain, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    try:
        for _ in range(120):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.25)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_history_in_postgresql(tmp_path: Path, postgres: int) -> None:
    settings = block("storage")
    settings["storage"]["postgres"]["postgres_db"]["port"] = postgres
    root = make_workspace(tmp_path / "root", {})
    (root / "dagster.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    run_id, _ = run_a_step(root, **_PG)
    with opened(root, **_PG) as instance:
        assert type(instance.run_storage).__module__.startswith("dagster_postgres")
        assert instance.get_run_by_id(run_id) is not None
        assert instance.get_latest_materialization_event(dg.AssetKey("speaks")) is not None
    assert not list((root / ".dagster").rglob("*.db"))
