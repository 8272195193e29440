"""The balancer of a Pulsar cluster switched off at run time, and put back as it was.

Only an operator asks for it. What stood before is remembered as an override or as none, so that a
cluster whose brokers start with another file tomorrow is not held to today's values.
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

# Brokers follow when their watch of /admin/configuration has fired.
_LOOK_AGAIN_S: Final = 0.5
_APPLIED_WITHIN_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class PreviousOverride:
    """A key that was changed.

    Attributes:
        override: what it had been changed to at run time before; None: nothing.
        value: what the brokers ran with.
        changed_to: what was set instead.
    """

    key: str
    override: str | None
    value: str
    changed_to: str

    @property
    def command(self) -> str:
        """The line that puts it back."""
        if self.override is None:
            return f"pulsar-admin brokers delete-dynamic-config --config {self.key}"
        return (
            f"pulsar-admin brokers update-dynamic-config --config {self.key} "
            f"--value {self.override}"
        )


async def disable_balancing(
    admin: PulsarAdmin, found: Iterable[Automatism]
) -> tuple[PreviousOverride, ...]:
    """Switch off what can be switched off at run time; returns once all brokers run with it.

    Where one change fails, those made before it are taken back.

    Raises:
        PeerRefused, PeerUnreachable: it is not as it was asked for, and why.
    """
    overrides = await admin.overrides()
    wanted = {item.key: item for item in found if item.is_dynamic}
    former = tuple(
        PreviousOverride(key, overrides.get(key), item.value, item.wanted)
        for key, item in wanted.items()
    )
    try:
        for change in former:
            log.info("%s: %s, was %s", change.key, change.changed_to, change.value)
            await admin.override(change.key, change.changed_to)
        await _wait_running(admin, {change.key: change.changed_to for change in former})
    except BaseException:
        # Also if cancelled: the caller does not get the list of overrides to put back.
        await restore_balancing(admin, former)
        raise
    return former


async def restore_balancing(
    admin: PulsarAdmin, former: Iterable[PreviousOverride]
) -> tuple[PreviousOverride, ...]:
    """Put back what `disable_balancing` changed; answers with what could not be put back.

    An override that another client has changed meanwhile stays.
    """
    failed = []
    for change in former:
        try:
            await _put_back(admin, change)
        except PeerError as error:
            log.warning("%s is not put back: %s; run: %s", change.key, error, change.command)
            failed.append(change)
    return tuple(failed)


async def _put_back(admin: PulsarAdmin, change: PreviousOverride) -> None:
    standing = (await admin.overrides()).get(change.key)
    if standing != change.changed_to:
        log.info("%s: left at %s, which is not what was set here", change.key, standing)
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
