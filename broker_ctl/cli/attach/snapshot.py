"""Snapshots that `broker-ctl attach` shows, as plain JSON values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker_ctl.balancer.attached.metadata_source import outdated_row
from broker_ctl.coordination.membership.cluster import bound_leader
from broker_ctl.errors import BrokerCtlError, NoLeader, PeerError
from broker_ctl.settings.conditions import CONSOLE

if TYPE_CHECKING:
    from broker_ctl.daemon.lifecycle.attached import Attached


async def take_snapshot(attached: "Attached", *, is_verbose: bool = False) -> dict[str, Any]:
    """The cluster, the plan, and what blocks it.

    ``plan`` is None while another process leads or no plan can be made; ``note`` has the reason.
    ``cluster_balancer`` is None if the cluster's settings cannot be read; ``untold`` has the error.
    ``stuck`` has bundles that the extensible load manager does not hand on. ``metadata_outdated``
    is None while the cluster is read as it is now, ``console_url`` where no console is served.
    """
    findings, error = await _findings(attached)
    base = attached.foundation
    held_back = await attached.cluster_balancer.blocked_reason()
    return {
        "at_ms": base.clock.wall_ms(),
        "cluster": base.settings.broker.cluster_name,
        "url": base.urls.web_url,
        "console_url": f"{base.urls.web_url}/ui/" if CONSOLE.holds(base.settings) else None,
        "acts": base.settings.pulsar.acts,
        "held_back": held_back,
        "metadata_outdated": outdated_row(attached.source.outdated),
        "stuck": attached.source.stuck(),
        "cluster_balancer": findings,
        **await _overview(attached, is_verbose=is_verbose),
        **({"untold": error} if error else {}),
    }


async def _overview(attached: "Attached", *, is_verbose: bool) -> Mapping[str, Any]:
    controller, leader = attached.balancer, attached.election.leader
    try:
        plan = await controller.operations.plan(is_verbose=is_verbose)
        return {**controller.overview(), "plan": plan, "note": ""}
    except NoLeader:
        if leader is None or leader.broker_id == attached.foundation.urls.broker_id:
            note = "waiting for the first reports"
        else:
            found = bound_leader(attached.election, attached.foundation.addresses)
            url = "" if found is None else found[1]
            note = (
                f"{leader.broker_id} already balances this cluster; this process stands by: "
                f"broker-ctl status --cluster --url {url or 'URL'}"
            )
    except BrokerCtlError as error:
        note = str(error)
    return {"brokers": [], "plan": None, "note": note}


async def _findings(attached: "Attached") -> tuple[list[dict[str, Any]] | None, str]:
    try:
        found = await attached.cluster_balancer.findings()
    except PeerError as error:
        return None, str(error)
    rows = [
        {
            "key": one.key,
            "value": one.value,
            "why": one.why,
            "dynamic": one.is_dynamic,
            "command": one.command,
        }
        for one in found
    ]
    return rows, ""
