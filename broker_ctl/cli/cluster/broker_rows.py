"""Rows of `brokers list`: the live brokers, with data of the leader and the controller."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.cli.runtime.output import echo
from broker_ctl.cli.runtime.units import value_text

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

LIST_COLUMNS: Final = ("broker", "leads", "brokerId", "version", "running since", "state")
_BROKERS: Final = "/admin/v2/brokers"
_CLUSTER: Final = "/control/v1/cluster"
_CONTROLLER: Final = "/control/v1/partitions/controller"


async def broker_rows(client: "Client") -> list[dict[str, Any]]:
    """One row per live broker; unknown fields are None."""
    # Every daemon knows the live brokers; an unreachable daemon fails here.
    ids = await client.get(_BROKERS)
    leader_id = await _leader(client)
    overview = {} if leader_id is None else await _cluster_overview(client)
    numbers = await _broker_ids(client)
    known = {row["broker"]: row for row in overview.get("brokers", ())}
    sources = {move["from"] for move in overview.get("moves", ())}
    return [
        {
            "broker": broker_id,
            "leads": broker_id == leader_id,
            "broker_id": numbers.get(broker_id),
            **_report_fields(known.get(broker_id, {}), is_source=broker_id in sources),
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


async def _cluster_overview(client: "Client") -> Mapping[str, Any]:
    from broker_ctl.errors import HttpError

    try:
        overview: Mapping[str, Any] = await client.get(_CLUSTER)
    except HttpError as error:
        # Every role may list the brokers; the leader's overview needs one of operators or viewers.
        echo(f"version, start and state are unknown: {error}", err=True)
        return {}
    return overview


async def _broker_ids(client: "Client") -> dict[str, int]:
    """Broker ids by daemon; empty without a controller."""
    from broker_ctl.errors import HttpError

    try:
        rows = (await client.get(_CONTROLLER))["brokers"]
    except HttpError:
        return {}
    return {row["daemon"]: row["broker"] for row in rows if row["daemon"]}


def _report_fields(row: Mapping[str, Any], *, is_source: bool) -> dict[str, Any]:
    fields = {name: row.get(name) for name in ("version", "started_ms")}
    if not row:
        return {**fields, "state": None}
    if not row["is_draining"]:
        return {**fields, "state": "ready"}
    return {**fields, "state": "draining" if row["bundles"] or is_source else "drained"}


def list_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    names = ("broker", "leads", "broker_id", "version")
    return *(row[name] for name in names), value_text("started_ms", row["started_ms"]), row["state"]
