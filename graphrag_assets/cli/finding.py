"""What graphrag-assets doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Args:
        name: What was looked at, such as storage or model default_completion_model.
        status: ok; warn: works, but perhaps not as meant; fail: an index run or a question would fail.
        detail: What was found.
        mend: What to do about it; empty when all is well.
    """

    name: str
    status: Status
    detail: str
    mend: str = ""


def ok(name: str, detail: str) -> Finding:
    """All is well."""
    return Finding(name, "ok", detail)


def warn(name: str, detail: str, mend: str) -> Finding:
    """Works, but perhaps not as meant."""
    return Finding(name, "warn", detail, mend)


def fail(name: str, detail: str, mend: str) -> Finding:
    """An index run or a question would fail."""
    return Finding(name, "fail", detail, mend)
