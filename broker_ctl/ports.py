"""What rooms of different floors need of each other, as protocols that `daemon.py` wires."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker_ctl.core.broker import BrokerUrls, LookupUrls
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.decisions import Decision
from broker_ctl.core.names import Namespace
from broker_ctl.core.orders import Order

# The answer to an order: plain JSON values.
Reply = Mapping[str, Any]


class Orders(Protocol):
    """A broker that obeys: this one, or another one behind HTTP."""

    async def obey(self, order: Order) -> Reply:
        """Carry an order out.

        Raises:
            PeerUnreachable: no answer in time; whether it was carried out is unknown.
            PeerRefused: the broker said no, with the kind of error that it met.
        """
        ...


class Placement(Protocol):
    """Who receives a bundle that nobody owns; only the leader can say."""

    async def place(self, bundle: Bundle) -> str:
        """The broker id.

        Raises:
            NoBroker: nobody may receive it.
            NoLeader: this broker does not lead (any more).
        """
        ...


class LeaderDesk(Protocol):
    """What the surface may ask of a broker while it leads."""

    def overview(self) -> Mapping[str, Any]:
        """Brokers, bundles, imbalance, moves and settings of the loop, as plain JSON values."""
        ...

    def explain(self, subject: str) -> Mapping[str, Any]:
        """What the leader knows of a broker id or of a bundle, and what it last decided on it.

        Raises:
            InvalidName: neither a live broker nor a bundle.
        """
        ...

    async def move(self, bundle: Bundle, destination: str) -> Reply:
        """Transfer a bundle by order of an operator; returns when it is served there.

        Raises:
            OwnershipError, NoBroker, PeerError: why it was not moved.
        """
        ...

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        """The bundle of a namespace that is ``LARGEST`` or ``HOT``.

        Raises:
            BundleGone: nothing was reported of any.
        """
        ...

    async def split(
        self, bundle: Bundle, algorithm: str, positions: tuple[int, ...], *, is_unloading: bool
    ) -> Reply:
        """Split a bundle by order of an operator; then move what came of it to better places.

        Raises:
            OwnershipError, NoBroker, PeerError: why it was not split.
        """
        ...

    async def merge(self, left: Bundle, right: Bundle) -> Reply:
        """Merge two neighbours by order of an operator, one of which may have to move first.

        Raises:
            OwnershipError, NoBroker, PeerError: why they were not merged.
        """
        ...


class Cluster(Protocol):
    """Who is there."""

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""
        ...

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Where a live broker is reached."""
        ...

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Where the daemon of a live broker answers binary lookups."""
        ...

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None while nobody is known to lead."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a decision.

    Attributes:
        result: ``done``, ``failed``, ``dry_run``, ``paused`` or ``skipped``.
        detail: why, where it was not done.
        took_s: from the first act to the last.
    """

    result: str
    detail: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One decision with its outcome, or one event of this broker."""

    at_ms: int
    epoch: int
    cycle: int
    decision: Decision
    outcome: Outcome
    extra: Mapping[str, Any] = field(default_factory=dict)


class Journal(Protocol):
    """Where decisions and their outcomes are written down: a log line, a counter, a row."""

    def record(self, entry: JournalEntry) -> None:
        """Write down; never blocks, and never raises."""
        ...

    def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""
        ...


# Raises `AuthorityLost` where the lease has run out or the session has ended (I1a).
CheckAuthority = Callable[[], None]
# Sends one order to the broker with this id.
Send = Callable[[str, Order], Awaitable[Reply]]
