"""graphrag-assets doctor: looks at everything that a run depends on, before a run does.

Every probe is guarded: what fails inside one is a finding, never an exception. Nothing is changed, nothing is spent,
and no key is shown; only ``online`` makes calls, one tiny one for each model in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from graphrag_assets.cli.doctor_installation import disk_space, extras, packages, python_version, telemetry
from graphrag_assets.cli.doctor_models import embedded_models, method, models, online_models, token_encoding
from graphrag_assets.cli.doctor_workspace import (
    cache,
    inputs,
    language,
    limits,
    notices,
    prompts,
    shared_cache,
    storage,
)
from graphrag_assets.cli.finding import Finding, Status, fail
from graphrag_assets.settings import Workspace
from graphrag_assets.settings_file import SettingsError, load_workspace

__all__ = ["Finding", "diagnose", "diagnose_root", "worst"]

Probe = Callable[[Workspace], Iterable[Finding]]

#: Name and probe, in the order in which people read them.
PROBES: tuple[tuple[str, Probe], ...] = (
    ("python", python_version),
    ("packages", packages),
    ("extras", extras),
    ("telemetry", telemetry),
    ("disk space", disk_space),
    ("settings", notices),
    ("input", inputs),
    ("storage", storage),
    ("cache", cache),
    ("shared cache", shared_cache),
    ("limits", limits),
    ("prompts", prompts),
    ("method", method),
    ("models", models),
    ("token encoding", token_encoding),
    ("embedded models", embedded_models),
    ("language", language),
)


def diagnose(workspace: Workspace, online: bool = False) -> list[Finding]:
    """Look at the installation, the settings, the input, the storage and the models of a workspace.

    Args:
        workspace: The workspace.
        online: Also make one tiny call to each model that is configured and used.

    Returns:
        Findings in a fixed order.
    """
    findings: list[Finding] = []
    probes = [*PROBES, ("models online", online_models)] if online else PROBES
    for name, probe in probes:
        findings += _guarded(name, probe, workspace)
    return findings


def diagnose_root(root: str | Path | None = None, online: bool = False) -> list[Finding]:
    """As :func:`diagnose`, for a root whose settings may not even load."""
    try:
        workspace = load_workspace(root)
    except SettingsError as error:
        return [fail("settings", str(error), "mend the keys named; docs/settings.md lists all")]
    return diagnose(workspace, online)


def worst(findings: Iterable[Finding]) -> Status:
    """The gravest status: fail before warn before ok."""
    found = {finding.status for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def _guarded(name: str, probe: Probe, workspace: Workspace) -> list[Finding]:
    findings: list[Finding] = []
    try:
        for finding in probe(workspace):
            findings.append(finding)  # one by one: what was found before an error counts
    except Exception as error:
        told = " ".join(str(error).split()) or "no message"
        mend = (
            "mend what the message names; if it names nothing that you can change, this is a fault of graphrag-assets"
        )
        findings.append(fail(name, f"could not be looked at: {type(error).__name__}: {told}", mend))
    return findings
