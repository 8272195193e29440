"""The bundles of a namespace with the load that the leader knows of each."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.bundles.actions import owner_rows

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client
    from broker_ctl.core.model.names import Namespace

SORT_ORDERS: Final = ("bundle", "load")
LIST_COLUMNS: Final = ("bundle", "owner", "token", "msg/s", "MiB/s", "note")
_CLUSTER: Final = "/control/v1/cluster"


async def rows_with_load(client: "Client", namespace: "Namespace") -> list[dict[str, Any]]:
    """Each bundle along the ring; its load is None where it is not known."""
    rows, loads = await owner_rows(client, namespace), await _loads(client)
    return [{**row, **_load_of(loads.get(row["bundle"], {}))} for row in rows]


async def _loads(client: "Client") -> dict[str, Mapping[str, Any]]:
    """Of the busiest bundles of the cluster; none where the leader cannot be asked."""
    from broker_ctl.errors import HttpError

    try:
        seen = await client.get(_CLUSTER)
    except HttpError as error:
        # Owners are known without a leader.
        click.echo(f"the load is unknown: {error}", err=True)
        return {}
    return {row["bundle"]: row for row in seen["bundles"]}


def _load_of(known: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: known.get(name) for name in ("msg_per_s", "throughput_bytes_per_s")}


def sort_rows(rows: Iterable[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """As they come, or the most load first and what is unknown last."""
    if order == "bundle":
        return list(rows)
    return sorted(rows, key=_throughput, reverse=True)


def _throughput(row: Mapping[str, Any]) -> float:
    known: float | None = row["throughput_bytes_per_s"]
    return -1.0 if known is None else known


def list_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """One line of the table."""
    from broker_ctl.core.rules.rules import MIB

    throughput = row["throughput_bytes_per_s"]
    mib = None if throughput is None else throughput / MIB
    return row["bundle"], row["owner"], row["token"], row["msg_per_s"], mib, row["note"]
