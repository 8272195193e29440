"""``--disable-cluster-balancer``: the cluster's own balancer is off while attach runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import click

from broker_ctl.daemon.lifecycle.attached import Attached
from broker_ctl.dataplane.pulsar.balancer_switch import disable_balancing, restore_balancing
from broker_ctl.dataplane.pulsar.cluster_balancer import AUTO_SPLIT, AUTO_UNLOAD, SHEDDING

_KEYS: Final = (SHEDDING, AUTO_SPLIT, AUTO_UNLOAD)


def confirm_disabling() -> None:
    """Ask before anything is begun.

    Raises:
        click.Abort: the operator does not want it, or there is nobody to be asked.
    """
    click.confirm(
        f"Whichever of {', '.join(_KEYS)} is on will be set to false at run time, in the whole "
        "cluster, and be put back at the end. Go on?",
        abort=True,
        err=True,
    )


@asynccontextmanager
async def balancer_disabled(attached: Attached) -> AsyncIterator[None]:
    """Switch off what can be at run time, and put it back at the end.

    Raises:
        PeerRefused, PeerUnreachable: it could not be switched off, and why.
    """
    findings = await attached.admin.cluster_balancer()
    for one in findings:
        if one.key not in _KEYS or not one.is_dynamic:
            click.echo(f"not at run time: {one}; {one.command}", err=True)
    changes = await disable_balancing(attached.admin, [one for one in findings if one.key in _KEYS])
    for change in changes:
        sentence = f"{change.key}={change.changed_to} until the end; should that be missed: "
        click.echo(sentence + change.command, err=True)
    try:
        yield
    finally:
        remaining = changes
        try:
            remaining = await restore_balancing(attached.admin, changes)
        finally:
            # Also where it takes too long and is cut off.
            for change in remaining:
                click.echo(f"{change.key} is not put back: {change.command}", err=True)
