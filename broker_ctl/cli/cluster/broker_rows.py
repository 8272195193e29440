"""The live brokers with what the leader and the controller know of each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.units import shown

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

LIST_COLUMNS: Final = ("broker", "leads", "brokerId", "version", "running since", "state")
_BROKERS: Final = "/admin/v2/brokers"
_CLUSTER: Final = "/control/v1/cluster"
_CONTROLLER: Final = "/control/v1/partitions/controller"


async def broker_rows(client: "Client") -> list[dict[str, Any]]:
    """One a live broker; None is what is not known of it."""
    # Any daemon knows them; one that does not answer fails here.
    ids = await client.get(_BROKERS)
    leader_id = await _leader(client)
    seen = {} if leader_id is None else await _seen_by_leader(client)
    numbers = await _numbers(client)
    known = {row["broker"]: row for row in seen.get("brokers", ())}
    giving = {move["from"] for move in seen.get("moves", ())}
    return [
        {
            "broker": broker_id,
            "leads": broker_id == leader_id,
            "broker_id": numbers.get(broker_id),
            **_reported(known.get(broker_id, {}), is_giving=broker_id in giving),
        }
        for broker_id in ids
    ]


async def _leader(client: "Client") -> str | None:
    from broker_ctl.errors import HttpError

    try:
        found: str = (await client.get(f"{_BROKERS}/leaderBroker"))["brokerId"]
    except HttpError:
        return None
    return found


async def _seen_by_leader(client: "Client") -> Mapping[str, Any]:
    from broker_ctl.errors import HttpError

    try:
        seen: Mapping[str, Any] = await client.get(_CLUSTER)
    except HttpError as error:
        # Who is there may be asked without a token, what the leader sees may not.
        click.echo(f"version, start and state are unknown: {error}", err=True)
        return {}
    return seen


async def _numbers(client: "Client") -> dict[str, int]:
    """By daemon; none where there are no replicas, or nobody controls them."""
    from broker_ctl.errors import HttpError

    try:
        rows = (await client.get(_CONTROLLER))["brokers"]
    except HttpError:
        return {}
    return {row["daemon"]: row["broker"] for row in rows if row["daemon"]}


def _reported(row: Mapping[str, Any], *, is_giving: bool) -> dict[str, Any]:
    told = {name: row.get(name) for name in ("version", "started_ms")}
    if not row:
        return {**told, "state": None}
    if not row["is_draining"]:
        return {**told, "state": "ready"}
    return {**told, "state": "draining" if row["bundles"] or is_giving else "drained"}


def list_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    names = ("broker", "leads", "broker_id", "version")
    return *(row[name] for name in names), shown("started_ms", row["started_ms"]), row["state"]
