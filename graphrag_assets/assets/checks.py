"""Asset checks: the pure checks of :mod:`graphrag_assets.indexing.validation` on the assets that they are about."""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
import pyarrow as pa

from graphrag_assets.indexing.validation import CHECKS, Check, Limits, Violation

#: Violations of one check that its metadata names; the count says how many there are.
SHOWN = 5


def check_specs(*assets: str) -> list[dg.AssetCheckSpec]:
    """Specs of the checks that are about the rows of these assets alone."""
    return [
        dg.AssetCheckSpec(c.name, asset=c.asset, description=c.description, blocking=c.blocking)
        for c in CHECKS
        if c.asset in assets
    ]


def check_rows(assets: Sequence[str], tables: Mapping[str, pa.Table], limits: Limits) -> Iterator[dg.AssetCheckResult]:
    """Check the rows of assets before they are written.

    So a table that fails is never in the build area, and nothing is made from it.

    Args:
        assets: What the step makes.
        tables: All tables that these checks read, by the names of the published tables.
        limits: Limits of the settings.

    Raises:
        dagster.Failure: A blocking check failed.
    """
    found = {check: check.run(tables, {}, limits) for check in CHECKS if check.asset in assets}
    for check, violations in found.items():
        yield result(check.name, violations, check.blocking, check.asset)
    stop_if_broken(found, "nothing was written")


def result(name: str, found: Sequence[Violation], blocking: bool, asset: str) -> dg.AssetCheckResult:
    """What a check found, for the page of its asset."""
    lines = [str(violation) for violation in found[:SHOWN]]
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=asset,
        passed=not found,
        severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
        description="; ".join(lines) or None,
        metadata={"violations": sum(violation.count for violation in found)},
    )


def stop_if_broken(found: Mapping[Check, Sequence[Violation]], consequence: str) -> None:
    """Fail the step where a blocking check failed.

    Args:
        found: Violations by check.
        consequence: What was not done.

    Raises:
        dagster.Failure: A blocking check failed; the message names the checks and the places.
    """
    broken = [f"{check.name}: {v}" for check, violations in found.items() if check.blocking for v in violations[:SHOWN]]
    if broken:
        raise dg.Failure(
            f"{consequence}, and the published snapshot stays as it is, since these checks failed:\n"
            + "\n".join(broken),
            allow_retries=False,
        )
