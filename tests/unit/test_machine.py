"""What a command takes of the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.workspaces import environment, make_workspace


@pytest.mark.parametrize("command", ["index", "status"])
def test_memory_is_kept_small_before_arrow_is_loaded(command: str, tmp_path: Path) -> None:
    """Arrow chooses where its memory comes from when it is first imported, which the modules of the commands do."""
    root = make_workspace(tmp_path, {})
    code = f"""
from click.testing import CliRunner
from graphrag_assets.cli.main import main
CliRunner().invoke(main, ["{command}", "--root", {str(root)!r}])
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment(), timeout=120
    )
    assert done.stdout == "system\n"


def test_pandas_is_loaded_only_for_who_asks_for_it() -> None:
    code = """
import sys
from graphrag_assets.machine import leave_out_pandas
leave_out_pandas()
import pyarrow as pa
from graphrag_assets.storage.vectors import load_lancedb
load_lancedb()
table = pa.table({"a": pa.array([1, 2])})
assert "pandas" not in sys.modules
assert list(table.to_pandas()["a"]) == [1, 2]
import pandas
assert pandas.DataFrame({"a": [3]})["a"].sum() == 3
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
