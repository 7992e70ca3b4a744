"""What models took, drawn over runs in the Dagster UI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.page import browser, look
from tests.browser.pictures import priced_runs
from tests.browser.test_ui import start
from tests.llmsim_server import LlmSim

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_usage_is_plotted_over_runs(tmp_path: Path, llmsim: LlmSim) -> None:
    pytest.importorskip("dagster_webserver", reason="the extra ui is not installed")
    if browser() is None:
        pytest.skip("no Chromium to render the page with; on Debian: apt install chromium")
    llmsim.reset()
    ui = start(priced_runs(tmp_path / "work", llmsim), tmp_path)
    try:
        totals = ["usage/total/usd", "usage/total/calls", "usage/extract_graph/prompt_tokens", "usage/total/seconds"]
        look(f"{ui.url}/assets/index_snapshot?view=overview", ["Plots"], shows=totals)
        stage = ["community_reports/llm_calls", "community_reports/cost_usd", "community_reports/seconds_waited"]
        look(f"{ui.url}/assets/community_reports?view=overview", ["Plots"], shows=stage)
    finally:
        ui.stop()
