"""What the binary server is built from, and its bounds."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext

from broker_ctl.api.http.credentials import Credentials
from broker_ctl.api.http.limits import ConcurrencyLimit
from broker_ctl.broker.lookup.lookup import Lookup
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.instruments.binary import BinaryInstruments


@dataclass(frozen=True, slots=True)
class BinaryDependencies:
    """The sources of replies.

    Attributes:
        bound: the lookups in progress, shared with those over HTTP.
        lookup_urls_of: where the daemon of a broker, by its id, answers binary lookups; None: it
            does not, or it is not known yet.
        partitions_of: how many a topic has; 0: it is not partitioned.
        topics_of: the topics of a namespace that are of these domains.
    """

    lookup: Lookup
    bound: ConcurrencyLimit
    lookup_urls_of: Callable[[str], LookupUrls | None]
    partitions_of: Callable[[Topic], Awaitable[int]]
    topics_of: Callable[[Namespace, Collection[str]], Awaitable[Sequence[str]]]
    instruments: BinaryInstruments


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on; ``setting`` is the one that its port comes from, 0: any port."""

    address: str
    port: int
    setting: str
    tls: SSLContext | None = None


@dataclass(frozen=True, slots=True)
class BinaryRules:
    """Admission of clients, and limits.

    Attributes:
        version: of this server, in its answer to CONNECT.
        credentials: whose tokens are wanted; None: none are.
        max_connections: one more is refused.
        max_in_flight: requests of one client in progress; beyond it no more is read of what it
            sends. A Java client keeps to 5,000 by itself, so that its pings are read.
        max_unsent_bytes: answers that a client has not taken; beyond it nothing more is read.
        max_message_bytes: the greatest message, as announced to clients. They keep to it wherever
            they send one, also on their connections to the brokers.
        connect_limit_s: for the TLS handshake, and again for the CONNECT.
        keep_alive_s: a client that was silent for so long is pinged, and one that then still is
            silent is left; so is one that takes no answer for so long.
        request_limit_s: after it a request has failed. Clients wait no longer.
        linger_s: how long a client that is left has to read why.
    """

    version: str
    credentials: Credentials | None = field(default=None, repr=False)
    max_connections: int = 10_000
    max_in_flight: int = 5_000
    max_unsent_bytes: int = 1024 * 1024
    max_message_bytes: int = 5 * 1024 * 1024
    connect_limit_s: float = 10.0
    keep_alive_s: float = 30.0
    request_limit_s: float = 30.0
    linger_s: float = 1.0
