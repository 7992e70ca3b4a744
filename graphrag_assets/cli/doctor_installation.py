"""What doctor looks at in the installation: Python, packages against the lock file, extras, disk space."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import graphrag_assets
from graphrag_assets.cli.finding import Finding, fail, ok, warn
from graphrag_assets.settings import Workspace
from graphrag_assets.telemetry import TelemetryError, telemetry_of

_DISTRIBUTION = "graphrag-assets"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
_LOW_BYTES, _TOO_LOW_BYTES = 2_000_000_000, 200_000_000

#: What each extra is for; those that only serve development are left out.
_EXTRAS = {
    "embedded": "names, embeddings and ranking without a key",
    "documents": "PDF and Word files",
    "multilingual": "embeddings without a key in languages other than English",
    "ui": "the Dagster web server",
    "redis": "limits of models that several hosts share",
    "telemetry": "traces and metrics by OpenTelemetry",
}


def python_version(workspace: Workspace) -> Iterator[Finding]:
    """The running Python against what the package asks for."""
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        yield ok("python", f"{version} ({sys.executable})")
    else:
        yield fail("python", f"{version} is not supported", "use Python 3.11, 3.12 or 3.13")


def packages(workspace: Workspace) -> Iterator[Finding]:
    """Installed packages against the lock file, else against the ranges that this package declares."""
    lock = Path(graphrag_assets.__file__).parents[1] / "requirements.lock"
    installed = {_normal(d.metadata["Name"]): d.version for d in metadata.distributions() if d.metadata["Name"]}
    missing, out_of_range = _declared(installed)
    if missing:
        mend = f"pip install --upgrade {_DISTRIBUTION}"
        yield fail("packages", f"not installed: {', '.join(missing)}", mend)
    if out_of_range:
        yield warn("packages", f"outside the supported versions: {', '.join(out_of_range)}", "make install")
    if missing or out_of_range:
        return
    if not lock.is_file():
        yield ok("packages", "all required packages are there, in supported versions; no lock file to compare with")
        return
    pinned = dict(_pins(lock.read_text(encoding="utf-8")))
    other = [
        f"{name} {installed[name]} (tested: {version})"
        for name, version in sorted(pinned.items())
        if name in installed and installed[name] != version
    ]
    same = sum(installed.get(name) == version for name, version in pinned.items())
    if other:
        yield warn("packages", f"{same} as tested, {len(other)} of other versions: {', '.join(other)}", "make install")
    else:
        yield ok("packages", f"{same} packages in the versions of {lock.name}")


def extras(workspace: Workspace) -> Iterator[Finding]:
    """Which extras are installed. Whether a missing one is needed is told where it is needed."""
    for extra, purpose in _EXTRAS.items():
        missing = missing_packages(extra)
        if missing:
            yield ok(f"extra {extra}", f"not installed ({purpose}): pip install '{_DISTRIBUTION}[{extra}]'")
        else:
            yield ok(f"extra {extra}", f"installed ({purpose})")


def telemetry(workspace: Workspace) -> Iterator[Finding]:
    """Who else is told of runs and calls; nothing where nobody is."""
    settings = workspace.settings.telemetry
    kinds = [kind for kind in ("traces", "metrics") if getattr(settings, kind)]
    if kinds:
        where = settings.endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
        try:
            telemetry_of(settings)
            yield ok("telemetry", f"{' and '.join(kinds)} go to {where}")
        except TelemetryError as error:
            yield fail("telemetry", str(error), f"pip install '{_DISTRIBUTION}[telemetry]'")
    yield from _callbacks(settings.litellm_callbacks)
    if settings.capture_content and (kinds or settings.litellm_callbacks):
        mend = "unset telemetry.capture_content where those who read traces may not read the documents"
        yield warn("telemetry content", "questions, prompts and answers are in traces and callbacks", mend)


def _callbacks(names: list[str]) -> Iterator[Finding]:
    """Whether each callback is one that LiteLLM has, or can be imported; a run would end at its first call."""
    from graphrag_assets.llm.errors import GatewayError
    from graphrag_assets.llm.providers.litellm_callbacks import callback_of
    from graphrag_assets.llm.providers.through_litellm import load_litellm

    for name in names:
        try:
            callback_of(name, load_litellm()[0])
        except GatewayError as error:
            yield fail(
                "telemetry callbacks", str(error), "mend the name, or remove it from telemetry.litellm_callbacks"
            )
        else:
            yield ok("telemetry callbacks", f"{name}: calls go through LiteLLM")


def missing_packages(extra: str) -> list[str]:
    """Packages of an extra that are not installed."""
    return [name for name, marker in _requirements() if marker == extra and not _is_installed(name)]


def disk_space(workspace: Workspace) -> Iterator[Finding]:
    """Free space where the workspace and a local index are."""
    places = [workspace.root]
    if "://" not in workspace.settings.storage.base:
        places.append(workspace.path(workspace.settings.storage.base))
    seen = set()
    for place in places:
        folder = next(parent for parent in (place, *place.parents) if parent.exists())
        device = folder.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(folder).free
        told = f"{free / 1e9:.1f} GB free at {folder}"
        if free < _TOO_LOW_BYTES:
            yield fail("disk space", told, "free some space; snapshots and the cache need room")
        elif free < _LOW_BYTES:
            yield warn("disk space", told, "free some space; snapshots and the cache need room")
        else:
            yield ok("disk space", told)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(text: str) -> Iterator[tuple[str, str]]:
    """Name and version of each pinned requirement of a lock file."""
    for line in text.splitlines():
        if found := _PINNED.match(line):
            yield _normal(found[1]), found[2]


def _requirements() -> list[tuple[str, str]]:
    """Requirement and the extra it belongs to, empty for the core."""
    found = []
    for line in metadata.requires(_DISTRIBUTION) or []:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker)
        found.append((requirement.strip(), extra[1] if extra else ""))
    return found


def _is_installed(requirement: str) -> bool:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    try:
        return bool(name and metadata.version(name[0]))
    except metadata.PackageNotFoundError:
        return False


def _declared(installed: dict[str, str]) -> tuple[list[str], list[str]]:
    """Required packages that are missing, and those (of extras too) whose version is outside the declared range."""
    from packaging.requirements import Requirement

    missing, out_of_range = [], []
    for text, extra in _requirements():
        requirement = Requirement(text)
        version = installed.get(_normal(requirement.name))
        if version is None:
            missing += [requirement.name] if not extra else []
        elif not requirement.specifier.contains(version, prereleases=True):
            out_of_range.append(f"{requirement.name} {version} (supported: {requirement.specifier})")
    return missing, out_of_range
