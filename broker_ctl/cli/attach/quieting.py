"""``--disable-cluster-balancer``: the cluster's own balancer is off while attach runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import click

from broker_ctl.daemon.lifecycle.attached import Attached
from broker_ctl.dataplane.pulsar.balancer_switch import disable_balancing, restore_balancing
from broker_ctl.dataplane.pulsar.cluster_balancer import AUTO_SPLIT, AUTO_UNLOAD, SHEDDING

_KEYS: Final = (SHEDDING, AUTO_SPLIT, AUTO_UNLOAD)


def confirm() -> None:
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
async def quieted(attached: Attached) -> AsyncIterator[None]:
    """Switch off what can be at run time, and put it back at the end.

    Raises:
        PeerRefused, PeerUnreachable: it could not be switched off, and why.
    """
    found = await attached.admin.cluster_balancer()
    for one in found:
        if one.key not in _KEYS or not one.is_dynamic:
            click.echo(f"not at run time: {one}; {one.command}", err=True)
    former = await disable_balancing(attached.admin, [one for one in found if one.key in _KEYS])
    for change in former:
        told = f"{change.key}={change.changed_to} until the end; should that be missed: "
        click.echo(told + change.command, err=True)
    try:
        yield
    finally:
        left = former
        try:
            left = await restore_balancing(attached.admin, former)
        finally:
            # Also where it takes too long and is cut off.
            for change in left:
                click.echo(f"{change.key} is not put back: {change.command}", err=True)
