"""Whose usage counts as the broker's (broker.conf: hostUsageSource)."""

from typing import Protocol

from broker_ctl.core.model.load import SystemUsage
from broker_ctl.dataplane.bundles.interface import DataPlane


class UsageSource(Protocol):
    """Measures what a broker uses of what it has: `HostUsage`, or `DataPlaneUsage`."""

    async def measure(self) -> SystemUsage:
        """Usage since the last call.

        Raises:
            DataPlaneError: it could not be asked.
        """
        ...


class DataPlaneUsage:
    """The data plane's word, and the host's where it has none."""

    def __init__(self, dataplane: DataPlane, host: UsageSource) -> None:
        self._dataplane = dataplane
        self._host = host

    async def measure(self) -> SystemUsage:
        """See `UsageSource`."""
        usage = await self._dataplane.usage()
        return await self._host.measure() if usage is None else usage
