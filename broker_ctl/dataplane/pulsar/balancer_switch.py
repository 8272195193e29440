"""Switches the balancer of a Pulsar cluster off at run time, and restores it.

Only an operator requests this. The previous state is remembered as an override or as no override,
so that a restore does not pin today's values for brokers that start with another file tomorrow.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.dataplane.pulsar.admin import PulsarAdmin
from broker_ctl.dataplane.pulsar.cluster_balancer import Automatism
from broker_ctl.errors import PeerError, PeerUnreachable

log = logging.getLogger(__name__)

# Brokers apply an override when their watch of /admin/configuration has fired.
_LOOK_AGAIN_S: Final = 0.5
_APPLIED_WITHIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class PreviousOverride:
    """A key that was changed.

    Attributes:
        override: its dynamic value before; None: it had none.
        value: the value that the brokers ran with.
        changed_to: the value that was set.
    """

    key: str
    override: str | None
    value: str
    changed_to: str

    @property
    def command(self) -> str:
        """The command that restores it."""
        if self.override is None:
            return f"pulsar-admin brokers delete-dynamic-config --config {self.key}"
        return (
            f"pulsar-admin brokers update-dynamic-config --config {self.key} "
            f"--value {self.override}"
        )


async def disable_balancing(
    admin: PulsarAdmin, found: Iterable[Automatism]
) -> tuple[PreviousOverride, ...]:
    """Switch off what can be switched off at run time; return once all brokers run with it.

    If one change fails, the changes before it are reverted.

    Raises:
        PeerRefused, PeerUnreachable: the balancing is not switched off; says why.
    """
    overrides = await admin.overrides()
    wanted = {item.key: item for item in found if item.is_dynamic}
    former = tuple(
        PreviousOverride(key, overrides.get(key), item.value, item.wanted)
        for key, item in wanted.items()
    )
    try:
        for change in former:
            log.info(
                "setting %s=%s in the cluster, was %s", change.key, change.changed_to, change.value
            )
            await admin.override(change.key, change.changed_to)
        await _wait_running(admin, {change.key: change.changed_to for change in former})
    except BaseException:
        # Even if cancelled: the caller does not get the list of overrides to restore.
        await restore_balancing(admin, former)
        raise
    return former


async def restore_balancing(
    admin: PulsarAdmin, former: Iterable[PreviousOverride]
) -> tuple[PreviousOverride, ...]:
    """Restore what `disable_balancing` changed; returns the overrides that it could not restore.

    An override that another client has changed meanwhile stays.
    """
    failed = []
    for change in former:
        try:
            await _put_back(admin, change)
        except PeerError as error:
            log.warning("%s is not restored: %s; run: %s", change.key, error, change.command)
            failed.append(change)
    return tuple(failed)


async def _put_back(admin: PulsarAdmin, change: PreviousOverride) -> None:
    standing = (await admin.overrides()).get(change.key)
    if standing != change.changed_to:
        log.info("%s stays %s: another client has changed it", change.key, standing)
    elif change.override is None:
        await admin.drop_override(change.key)
    else:
        await admin.override(change.key, change.override)


async def _wait_running(admin: PulsarAdmin, wanted: Mapping[str, str]) -> None:
    try:
        async with asyncio.timeout(_APPLIED_WITHIN_S):
            while True:
                running = await admin.all_running()
                if all(wanted.items() <= values.items() for values in running.values()):
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError as error:
        raise PeerUnreachable(
            f"not all brokers run with {', '.join(f'{k}={v}' for k, v in wanted.items())} after "
            f"{_APPLIED_WITHIN_S:g} s"
        ) from error
