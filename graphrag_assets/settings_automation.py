"""The section ``automation`` of settings.yaml: what happens to the index without further hands."""

from __future__ import annotations

from pydantic import Field

from graphrag_assets.settings_sections import Section


class AutomationSettings(Section):
    """What the daemon of `graphrag-assets ui` does by itself; each can also be switched in the Dagster UI."""

    watch_input: bool = Field(False, description="The sensor watch_input is on: index what changes in the input.")
    watch_seconds: int = Field(30, gt=0, description="Seconds between two looks at the input.")
    settle_seconds: float = Field(
        30.0, ge=0, description="Seconds for which changed files must stay as they are before they are indexed."
    )
    settle_at_most_seconds: float = Field(
        900.0,
        ge=0,
        description="Seconds after which an input that is never at rest is indexed all the same, without the files that "
        "are still being written.",
    )
    retries: int = Field(3, ge=0, description="How often the sensor starts a run again that left work undone.")
    retry_seconds: float = Field(60.0, gt=0, description="Wait before the first of these; each next one doubles it.")
    watch_batches: bool = Field(
        False, description="The sensor watch_batches is on: go on when a provider has done a batch (batch_api)."
    )
    batch_seconds: int = Field(300, gt=0, description="Seconds between two looks at batches of providers.")
    nightly: bool = Field(False, description="The schedule nightly is on: reconcile.")
    nightly_cron: str = Field("0 3 * * *", description="When.")
    weekly: bool = Field(False, description="The schedule weekly is on: re-cluster from scratch, prune snapshots.")
    weekly_cron: str = Field("0 4 * * 0", description="When.")
    timezone: str = Field("UTC", description="Time zone of both schedules, such as Europe/Berlin.")
    keep_snapshots: int = Field(10, gt=0, description="The weekly pruning keeps so many of the newest snapshots.")
    keep_days: float = Field(30.0, ge=0, description="It also keeps the younger ones, by age in days.")
    stale_hours: float = Field(
        24.0, gt=0, description="Hours after which a change of the input that is not published fails a check."
    )
    alert_failed_share: float = Field(
        0.0, ge=0, le=1, description="Share of failed text units or reports above which a check warns."
    )
    lease_seconds: float = Field(
        120.0,
        ge=2,
        description="Seconds after which another host takes over from a process that no longer renews its claim.",
    )
