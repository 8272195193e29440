"""Racks of live brokers, from their registrations."""

from collections.abc import Mapping

from broker_ctl.coordination.membership.registry import Registry


class PeerRacks:
    """Follows the registry; to be made before the registry starts."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._current: Mapping[str, str] = {}
        registry.listen(self._changed)

    def current(self) -> Mapping[str, str]:
        """The racks of the brokers that have one, by id; the same object until one changes."""
        return self._current

    def _changed(self) -> None:
        peers = self._registry.peers.items()
        racks = {name: peer.registration.rack for name, peer in peers if peer.registration.rack}
        if racks != self._current:
            self._current = racks
