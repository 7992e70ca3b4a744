"""What the sensor costs on many files: looks at an input of which nothing, or one file, changed.

    python bench/watching.py --files 100000

Each figure is the middle of five. The files are small (a hundred bytes): a look opens none of them, and reading is
measured apart, as the inventory that an index run takes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from graphrag_assets.automation.plan import inventory_fingerprint
from graphrag_assets.automation.watching import look
from graphrag_assets.input.inventory import Inventory, take_inventory
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.build import BuildArea, Built
from graphrag_assets.storage.filesystem import open_filesystem

REPEATS = 5


def seconds(what: Callable[[], object]) -> tuple[float, float]:
    """Middle wall and CPU seconds."""
    walls, cpus = [], []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        what()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(count):
            file = root / "input" / f"{number // 1000:04d}" / f"{number:07d}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                f"Document {number} says what it says about the bridge, and no more than that, since it is short."
            )
        workspace = load_workspace(root)
        source, storage = open_filesystem(str(root / "input")), open_filesystem(str(root / "output"))
        area = BuildArea(storage)

        def told(name: str, what: Callable[[], object]) -> None:
            wall, cpu = seconds(what)
            print(f"{name:60} {wall:8.2f} s {cpu:8.2f} s CPU", flush=True)

        def keep(inventory: Inventory) -> None:
            area.write("input_files", Built(inventory.files))
            area.write("rejected_inputs", Built(inventory.rejected))
            area.write("input_inventory", Built(inventory.documents, inventory_fingerprint(workspace)))

        def take(before: Inventory | None) -> Inventory:
            return take_inventory(source, workspace.settings, before)

        told("look: nothing was indexed yet", lambda: look(workspace, source, storage))
        started = time.perf_counter()
        inventory = take(None)
        print(f"{'inventory: every file read, once':60} {time.perf_counter() - started:8.2f} s", flush=True)
        keep(inventory)
        clean = look(workspace, source, storage).state
        told("look: unchanged, as it was when nothing was missing", lambda: look(workspace, source, storage, clean))
        (root / "input" / "0000" / "0000000.txt").write_text("It says something else now.")
        told("look: one file changed", lambda: look(workspace, source, storage, clean))
        told("inventory: one file changed, one file read", lambda: take(inventory))


if __name__ == "__main__":
    main()
