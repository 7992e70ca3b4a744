"""Calls to a provider that refuses what is too fast, without any limit in the settings: pace, refusals, fairness.

    python bench/refusals.py [--calls 240] [--per-minute 120] [--processes 2]

The simulator lets through so many requests a minute (a token bucket that holds two seconds' worth) and refuses the others
with HTTP 429. Each process asks for two batches at the same time; all of them share one workspace, so what one refusal
teaches, the others know.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.simulator import Simulator  # noqa: E402

BATCHES = 2


async def ask_all(root: str, address: str, name: str, calls: int) -> list[float]:
    """Seconds until each batch has all its answers."""
    from graphrag_assets.llm.gateway import Gateway
    from graphrag_assets.settings import Settings, Workspace

    entry = {"model_provider": "openai", "model": "gpt-4o-mini", "api_base": address + "/v1", "api_key": "sk-bench"}
    settings = Settings.model_validate({"completion_models": {"chat": entry}})
    begin = time.monotonic()

    async with Gateway(Workspace(root=Path(root), settings=settings)) as gateway:
        ask = gateway.ask("bench", "chat")

        async def batch(number: int) -> float:
            questions = (f"[[kind:basic]] {name}, batch {number}, question {i}: who met whom?" for i in range(calls))
            await asyncio.gather(*(ask([{"role": "user", "content": question}], str) for question in questions))
            return time.monotonic() - begin

        return list(await asyncio.gather(*(batch(number) for number in range(BATCHES))))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=240, help="of all processes together")
    parser.add_argument("--per-minute", type=int, default=120)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        root, address, name, calls = given.child
        print(json.dumps(asyncio.run(ask_all(root, address, name, int(calls)))))
        return
    each = given.calls // given.processes // BATCHES
    calls = each * given.processes * BATCHES
    with Simulator() as simulator, tempfile.TemporaryDirectory() as root:
        simulator.reset(latency=given.latency, rpm=given.per_minute)
        begin = time.monotonic()
        command = [sys.executable, __file__, "--child", root, simulator.url]
        children = [
            subprocess.Popen([*command, f"process {i}", str(each)], stdout=subprocess.PIPE, text=True)
            for i in range(given.processes)
        ]
        ends = [end for child in children for end in json.loads(child.communicate()[0])]
        seconds = time.monotonic() - begin
        stats = simulator.stats()
    span = stats["span_s"] or seconds
    print(f"{calls} calls, {given.per_minute} a minute allowed, {given.processes} processes of {BATCHES} batches")
    print(f"refused          {stats['limited_429']} ({100 * stats['limited_429'] / calls:.1f} %)")
    print(f"pace             {100 * calls / (span * given.per_minute / 60):.0f} % of the allowed one ({span:.0f} s)")
    print(f"batches ended at {', '.join(f'{end:.0f}' for end in sorted(ends))} s")


if __name__ == "__main__":
    main()
