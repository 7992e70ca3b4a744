"""Schedules: a reconcile every night, upkeep every week. Off unless settings.yaml or a person says otherwise."""

from __future__ import annotations

import dagster as dg

from graphrag_assets.automation.jobs import RECONCILE, RECONCILE_OP, UPKEEP
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import SettingsError


def schedules(workspace: Workspace) -> list[dg.ScheduleDefinition]:
    """Declare nightly and weekly.

    Args:
        workspace: Settings.

    Raises:
        SettingsError: A time or the time zone is none.
    """
    automation = workspace.settings.automation

    def declare(name: str, job: str, cron: str, on: bool, description: str, **config: bool) -> dg.ScheduleDefinition:
        config_of_run = {"settle_seconds": automation.settle_seconds, **config}
        try:
            return dg.ScheduleDefinition(
                name=name,
                job_name=job,
                cron_schedule=cron,
                execution_timezone=automation.timezone,
                default_status=dg.DefaultScheduleStatus.RUNNING if on else dg.DefaultScheduleStatus.STOPPED,
                run_config={"ops": {RECONCILE_OP: {"config": config_of_run}}},
                description=description,
            )
        except dg.DagsterInvalidDefinitionError as error:
            raise SettingsError(f"automation.{name}_cron {cron!r}, automation.timezone: {error}") from error

    return [
        declare(
            "nightly",
            RECONCILE,
            automation.nightly_cron,
            automation.nightly,
            "Brings the index to the state of the input and the settings, whatever the sensor missed or gave up. "
            "It spends what the change costs: off unless automation.nightly is set, or it is switched on here.",
        ),
        declare(
            "weekly",
            UPKEEP,
            automation.weekly_cron,
            automation.weekly,
            "Makes all communities afresh, with new reports where they differ, then removes old snapshots by number and "
            "age. Off unless automation.weekly is set, or it is switched on here: it spends and it deletes.",
            recluster=True,
        ),
    ]
