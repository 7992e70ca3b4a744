"""What the sensor decides: files come to rest, equal triggers are one, failed runs are tried again for a while."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_assets.automation.alerts import FRESH, evaluate, stale
from graphrag_assets.automation.watching import Decision, LastRun, Look, Memory, decide, look
from graphrag_assets.input.folder import InputError
from graphrag_assets.input.inventory import take_inventory
from graphrag_assets.settings_automation import AutomationSettings
from graphrag_assets.settings_file import load_workspace
from graphrag_assets.storage.filesystem import open_filesystem

SETTINGS = AutomationSettings(settle_seconds=30, settle_at_most_seconds=900, retries=3, retry_seconds=60)
NOW = 1_000_000.0


def missing(what: str = "a", *modified: float, gone: bool = False) -> Look:
    return Look(f"state of {what}", what, f"files: {what}", modified, gone)


class Sensor:
    """A sensor whose daemon starts anew before every look: all that it knows is its cursor."""

    def __init__(self) -> None:
        self.cursor = ""
        self.keys: list[str] = []
        self.runs: dict[str, LastRun] = {}

    def sees(self, seen: Look, now: float) -> Decision:
        decision = decide(Memory.read(self.cursor), seen, now, SETTINGS, self.runs.get)
        again = decide(Memory.read(self.cursor), seen, now, SETTINGS, self.runs.get)
        assert again == decision, "equal triggers decide equally"
        self.cursor = decision.memory.to_json()
        if decision.start:
            self.keys.append(decision.memory.key)
        return decision


def test_files_that_rest_are_indexed_at_the_second_look() -> None:
    sensor = Sensor()
    first = sensor.sees(missing("a", NOW - 500), NOW)
    assert not first.start
    assert "waiting until they stay as they are for 30 s" in first.reason
    assert sensor.sees(missing("a", NOW - 500), NOW + 30).start
    assert len(sensor.keys) == 1


def test_a_young_file_waits() -> None:
    sensor = Sensor()
    for after in (0, 10, 20, 29):
        decision = sensor.sees(missing("a", NOW), NOW + after)
        assert not decision.start
    assert "(1 changed within that time)" in decision.reason
    assert sensor.sees(missing("a", NOW), NOW + 30).start


def test_a_file_that_grows_waits_whatever_its_time_says() -> None:
    """As where a copy keeps the time of its source: each look finds it changed."""
    sensor = Sensor()
    for look_number in range(20):
        assert not sensor.sees(missing(f"size {look_number}", NOW - 86400), NOW + 30 * look_number).start
    assert sensor.sees(missing("size 19", NOW - 86400), NOW + 600).start


def test_a_wrong_clock_does_not_keep_a_file_out() -> None:
    sensor = Sensor()
    future = missing("a", NOW + 10_000)
    assert not sensor.sees(future, NOW).start
    assert sensor.sees(future, NOW + 30).start


def test_an_input_that_is_never_at_rest() -> None:
    """What rests is indexed after a time; where all is being written, nothing can be."""
    sensor, only = Sensor(), Sensor()
    started = []
    for at in range(0, 2000, 30):
        now = NOW + at
        if sensor.sees(missing(f"one rests, one grows {at}", NOW - 500, now), now).start:
            started.append(at)
        assert not only.sees(missing(f"one grows {at}", now), now).start
    assert started == [900, 1830]


def test_deleted_files_need_no_time() -> None:
    sensor = Sensor()
    assert not sensor.sees(missing("gone", gone=True), NOW).start
    assert sensor.sees(missing("gone", gone=True), NOW + 30).start


def test_done_and_again() -> None:
    """A file that is added, removed and added again with its old time asks for a run each time, under another key."""
    sensor = Sensor()
    for round_ in range(3):
        at = NOW + 1000 * round_
        sensor.sees(missing("a", NOW - 500), at)
        assert sensor.sees(missing("a", NOW - 500), at + 30).start
        sensor.runs[sensor.keys[-1]] = LastRun("r", at + 60, True)
        decision = sensor.sees(Look("clean"), at + 90)
        assert decision.memory == Memory(clean="clean")
    assert len(set(sensor.keys)) == 3


@pytest.mark.parametrize("succeeded", [True, False])
def test_work_that_is_left_is_tried_again_with_growing_distance(succeeded: bool) -> None:
    sensor, started = Sensor(), []
    for at in range(0, 5000, 10):
        decision = sensor.sees(missing("a", NOW - 500), NOW + at)
        if decision.start:
            started.append(at)
            sensor.runs[sensor.keys[-1]] = LastRun(f"r{len(started)}", NOW + at, succeeded)
    assert started == [10, 70, 190, 430], "after 60, 120 and 240 seconds"
    assert "4 runs were made" in decision.reason
    assert ("left this undone" if succeeded else "failed") in decision.reason
    assert not sensor.sees(missing("b", NOW - 500), NOW + 5000).start
    assert sensor.sees(missing("b", NOW - 500), NOW + 5010).start, "another change begins anew"


def test_a_run_that_somebody_stopped_is_not_started_again() -> None:
    sensor = Sensor()
    sensor.sees(missing(), NOW)
    assert sensor.sees(missing(), NOW + 30).start
    sensor.runs[sensor.keys[-1]] = LastRun("r", NOW + 40, succeeded=False, stopped=True)
    assert "somebody stopped run r" in sensor.sees(missing(), NOW + 100_000).reason
    assert len(sensor.keys) == 1


def test_a_run_that_was_never_made_is_asked_for_again() -> None:
    sensor = Sensor()
    sensor.sees(missing(), NOW)
    assert sensor.sees(missing(), NOW + 30).start
    assert not sensor.sees(missing(), NOW + 45).start
    assert sensor.sees(missing(), NOW + 90).start


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(1, 400), st.booleans()), max_size=60))
def test_keys_never_repeat(story: list[tuple[str, int, bool]]) -> None:
    """Dagster drops a request whose key it knows: a repeated key would be a change that is never indexed."""
    sensor, now = Sensor(), NOW
    for what, seconds, succeeds in story:
        now += seconds
        seen = missing(what, NOW) if what else Look("clean")
        if sensor.sees(seen, now).start and succeeds:
            sensor.runs[sensor.keys[-1]] = LastRun("r", now, True)
    assert len(set(sensor.keys)) == len(sensor.keys)


@pytest.mark.parametrize("cursor", [None, "", "not json", '{"of": "another release"}', "[]", "3"])
def test_a_cursor_that_cannot_be_read_is_forgotten(cursor: str | None) -> None:
    assert Memory.read(cursor) == Memory()


def write(root: Path, name: str, text: str, age: float = 1000.0) -> None:
    file = root / "input" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    os.utime(file, (time.time() - age,) * 2)


def test_a_look_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.txt", "A text.")
    source, storage = open_filesystem(str(tmp_path / "input")), open_filesystem(str(tmp_path / "output"))
    monkeypatch.setattr(source, "read", lambda _: pytest.fail("it reads the input"))
    workspace = load_workspace(tmp_path)
    seen = look(workspace, source, storage)
    assert seen.told == "files: 1 new"
    assert look(workspace, source, storage) == seen
    write(tmp_path, "a.txt", "A text?", 999.0)
    assert look(workspace, source, storage).missing != seen.missing
    monkeypatch.setattr(storage, "read", lambda _: pytest.fail("it reads more than it needs"))
    assert look(workspace, source, storage, look(workspace, source, storage, "").state).missing == ""


def test_without_an_input_the_look_fails(tmp_path: Path) -> None:
    """So that the tick is shown as failed, and what was indexed is not taken for deleted."""
    with pytest.raises(InputError, match="does not exist"):
        look(load_workspace(tmp_path), open_filesystem(str(tmp_path / "input")), open_filesystem(str(tmp_path / "o")))
    alerts, seen = evaluate(load_workspace(tmp_path))
    assert seen is None
    assert not alerts[FRESH].passed
    assert "does not exist" in alerts[FRESH].told


def test_young_files_stay_as_they_were_seen(tmp_path: Path) -> None:
    settings = load_workspace(tmp_path).settings
    source = open_filesystem(str(tmp_path / "input"))
    write(tmp_path, "old.txt", "Old.")
    write(tmp_path, "edited.txt", "Before.")
    write(tmp_path, "gone.txt", "Gone.")
    before = take_inventory(source, settings)
    write(tmp_path, "edited.txt", "Half a", 1.0)
    write(tmp_path, "new.txt", "Half", 1.0)
    (tmp_path / "input" / "gone.txt").unlink()
    waiting = take_inventory(source, settings, before, settle_seconds=30)
    assert waiting.files.to_pylist() == [r for r in before.files.to_pylist() if r["file"] != "gone.txt"]
    assert waiting.documents["path"].to_pylist() == ["edited.txt", "old.txt"]
    assert waiting.changes.deleted == 1
    assert waiting.changes.edited == 0
    now = take_inventory(source, settings, waiting)
    assert (now.changes.added, now.changes.edited) == (1, 1), "a person who asks gets what is there"


def test_the_alert_tells_what_waits_and_since_when() -> None:
    assert stale(Look("state"), None, 24, NOW).passed
    assert stale(missing("1 new", NOW - 3600), None, 24, NOW).passed
    late = stale(missing("1 new", NOW - 30 * 3600, NOW), None, 24, NOW)
    assert not late.passed
    assert late.figures == {"hours_waiting": 30.0}
    assert "files: 1 new, since 1970-01-11T07:46+00:00, while nothing is published" in late.told
    assert stale(missing("1 new", 5.0), None, 24, NOW, first=NOW - 60).passed, "an old file that was put there just now"


def test_what_waits_is_not_taken_for_as_old_as_the_snapshot() -> None:
    """A snapshot of three days ago, and what came, went or failed just now: it waits since now, not for three days."""
    days = datetime.fromtimestamp(NOW - 72 * 3600, UTC).isoformat()
    published: Any = SimpleNamespace(created=days, id="000007-abc")
    assert stale(missing("1 gone", gone=True), published, 24, NOW).passed
    assert stale(missing("1 new", 5.0), published, 24, NOW).passed, "copied with the time that it had elsewhere"
    assert stale(Look("s", "m", "stages have to be made", since=(5.0, NOW - 60)), published, 24, NOW).passed
    late = stale(Look("s", "m", "stages have to be made", since=(5.0, NOW - 30 * 3600)), published, 24, NOW)
    assert late.figures == {"hours_waiting": 30.0}
    assert not late.passed
