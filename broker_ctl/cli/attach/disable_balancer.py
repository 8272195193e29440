"""``--disable-cluster-balancer``: the cluster's own balancer is off while attach runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import click

from broker_ctl.cli.runtime.output import echo
from broker_ctl.daemon.lifecycle.attached import Attached
from broker_ctl.dataplane.pulsar.balancer_switch import disable_balancing, restore_balancing
from broker_ctl.dataplane.pulsar.cluster_balancer import AUTO_SPLIT, AUTO_UNLOAD, SHEDDING

_KEYS: Final = (SHEDDING, AUTO_SPLIT, AUTO_UNLOAD)


def confirm_disabling() -> None:
    """Ask for confirmation before anything starts.

    Raises:
        click.Abort: the operator declined, or stdin is closed.
    """
    click.confirm(
        f"Those of {', '.join(_KEYS)} that are true will be set to false in the whole cluster, "
        "and restored when this command ends. Continue?",
        abort=True,
        err=True,
    )


@asynccontextmanager
async def balancer_disabled(attached: Attached) -> AsyncIterator[None]:
    """Disable the dynamic settings of the cluster's balancer, and restore them at the end.

    Raises:
        PeerRefused, PeerUnreachable: a setting could not be changed.
    """
    findings = await attached.admin.cluster_balancer()
    for one in findings:
        if one.key not in _KEYS or not one.is_dynamic:
            echo(f"cannot be disabled at run time: {one}; {one.command}", err=True)
    changes = await disable_balancing(attached.admin, [one for one in findings if one.key in _KEYS])
    for change in changes:
        sentence = f"{change.key}={change.changed_to} until this command ends; if it is killed: "
        echo(sentence + change.command, err=True)
    try:
        yield
    finally:
        remaining = changes
        try:
            remaining = await restore_balancing(attached.admin, changes)
        finally:
            # Also if restoring takes too long and is cancelled.
            for change in remaining:
                echo(f"{change.key} was not restored: {change.command}", err=True)
