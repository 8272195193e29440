"""What lookups need of other components, as protocols that `daemon/` wires."""

from typing import Protocol

from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import PERSISTENT


class Placement(Protocol):
    """Chooses the broker that receives a bundle without an owner; only the leader can."""

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """The id of the chosen broker.

        ``domain`` is that of the topic in the lookup.

        Raises:
            NoBroker: no broker may receive it.
            NoLeader: this broker does not lead (any more).
        """


class Cluster(Protocol):
    """The live brokers."""

    def broker_ids(self) -> list[str]:
        """Ids of the live brokers, sorted."""

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Addresses of a live broker."""

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Addresses of the daemon of a live broker for binary lookups."""

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None if no leader is known."""
