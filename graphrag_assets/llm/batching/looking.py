"""Looking at batches from outside of a run: whether any of them has ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from graphrag_assets.llm.asking.calls import ModelCalls
from graphrag_assets.llm.batching.channel import Channel
from graphrag_assets.llm.batching.desk import told_flight
from graphrag_assets.llm.batching.records import Flight, Records, records_path
from graphrag_assets.llm.batching.transports import ENDED
from graphrag_assets.llm.errors import GatewayError
from graphrag_assets.settings import ModelSettings, Workspace


@dataclass(frozen=True)
class Looked:
    """What a look found.

    Args:
        ready: Batches for which a run has something to do, by name and state.
        told: What there is, in words.
    """

    ready: list[str]
    told: str


def look_at_flights(workspace: Workspace) -> Looked:
    """Ask the providers about the batches of an index; nothing is collected.

    Args:
        workspace: Root and settings.
    """
    records = Records(records_path(workspace))
    flights = records.flights(workspace.uri(workspace.settings.storage.base))
    if not flights:
        return Looked([], "no batch is under way")
    seen = asyncio.run(_look(workspace, flights, records))
    ready = [flight for flight in seen if flight.state != "sent" or flight.status in ENDED]
    named = [f"{flight.token} {flight.state} {flight.status}" for flight in ready]
    return Looked(named, "; ".join(told_flight(flight) for flight in ready or seen))


async def _look(workspace: Workspace, flights: list[Flight], records: Records) -> list[Flight]:
    """The batches as their providers tell of them; one that the provider does not know any more has ended."""
    channels: dict[str, Channel | None] = {}
    seen = []
    try:
        for flight in flights:
            if flight.state != "sent" or flight.status in ENDED:
                seen.append(flight)
                continue
            if flight.entry not in channels:
                channels[flight.entry] = _channel(workspace, flight)
            channel = channels[flight.entry]
            if channel is None:  # the entry is gone, or means another provider now: its answers will not be asked for
                continue
            found = await channel.look(flight, records)
            seen.append(
                replace(flight, status=found.status, done=found.done) if found else replace(flight, status="failed")
            )
    finally:
        for channel in channels.values():
            if channel is not None:
                await channel.close()
    return seen


def _channel(workspace: Workspace, flight: Flight) -> Channel | None:
    section, _, model_id = flight.entry.partition(".")
    settings: ModelSettings | None = getattr(workspace.settings, section, {}).get(model_id)
    if settings is None or settings.batch_api is None:
        return None
    try:
        calls = ModelCalls(flight.entry, settings, asyncio.Semaphore(1), completes=section == "completion_models")
    except GatewayError:
        return None
    channel = Channel(calls, settings.batch_api, "")
    return channel if channel.provider == flight.provider else None
