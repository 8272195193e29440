"""What lookups need of other components, as protocols that `daemon/` wires."""

from typing import Protocol

from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import PERSISTENT


class Placement(Protocol):
    """Who receives a bundle that nobody owns; only the leader can say."""

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """The broker id.

        ``domain`` is that of the topic which is asked for.

        Raises:
            NoBroker: nobody may receive it.
            NoLeader: this broker does not lead (any more).
        """


class Cluster(Protocol):
    """Who is there."""

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Where a live broker is reached."""

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Where the daemon of a live broker answers binary lookups."""

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None while nobody is known to lead."""
