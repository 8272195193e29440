"""What the binary server is built from, and its bounds."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext

from broker_ctl.api.http.limits.requests import ConcurrencyLimit
from broker_ctl.broker.lookup.lookup import Lookup
from broker_ctl.clock import Clock, SystemClock
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.instruments.clients import BinaryInstruments, BoundInstruments
from broker_ctl.security.audit.log import AuditLog
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import Authorization, AuthorizationPolicy, ClusterRoles
from broker_ctl.security.client_limits import FailureDelays, RequestRates
from broker_ctl.tracing.spans import Tracer


@dataclass(frozen=True, slots=True)
class BinaryDependencies:
    """The sources of replies.

    Attributes:
        bound: the lookups in progress, shared with those over HTTP.
        lookup_urls_of: where the daemon of a broker, by its id, answers binary lookups; None: it
            does not, or it is not known yet.
        partitions_of: how many a topic has; 0: it is not partitioned.
        authorization: of authenticated clients.
        topics_of: the topics of a namespace that are of these domains.
        rates: of requests, by address and by role.
        failures: delays the refusal of clients that are not authenticated.
        tracer: None: nothing is traced.
    """

    lookup: Lookup
    bound: ConcurrencyLimit
    lookup_urls_of: Callable[[str], LookupUrls | None]
    partitions_of: Callable[[Topic], Awaitable[int]]
    authorization: Authorization
    topics_of: Callable[[Namespace, Collection[str]], Awaitable[Sequence[str]]]
    instruments: BinaryInstruments
    bounds: BoundInstruments
    rates: RequestRates
    failures: FailureDelays
    clock: Clock
    tracer: Tracer | None = None


@dataclass(frozen=True, slots=True)
class BinaryListener:
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
        authenticator: None: clients need not authenticate.
        policy: judges the original principals that proxies name.
        max_connections: limit of clients that have sent a valid CONNECT; further ones are refused.
            0: no limit.
        max_connections_of_address: of them, of one address; 0: all. Addresses of IPv6 with the
            same 64 bits at the front count as one, here and below.
        max_waiting, max_waiting_of_address: limits of connections before their CONNECT, of all
            addresses and of one; where there are more, the oldest are disconnected.
        max_refused: of clients that are refused, how many get the reason; others are disconnected
            at once.
        max_in_flight: limit of requests in progress of one client, at which the server stops
            reading from it. A Java client keeps to 5,000 by itself, so its pings are still read.
        max_unsent_bytes: limit of answers that a client has not read, at which the server stops
            reading from it.
        max_message_bytes: largest message, as announced to clients. They keep to it also on their
            connections to broker processes.
        connect_limit_s: for the TLS handshake, and again for the CONNECT.
        keep_alive_s: a client that is silent for this time gets a PING, and is disconnected after
            another such time without data; so is a client that reads no answer for this time.
        request_limit_s: time after which a request fails; clients wait no longer.
        refresh_check_s: how often a connection is checked for an expired token, and how long its
            client has for the answer to the challenge.
        linger_s: time in which a disconnected client can read the reason.
        audit: the log of refusals; None: there is none.
        wall_ms: Unix time in milliseconds, at which tokens and certificates expire.
    """

    version: str
    authenticator: Authenticator | None = None
    policy: AuthorizationPolicy = field(default_factory=lambda: AuthorizationPolicy(ClusterRoles()))
    max_connections: int = 10_000
    max_connections_of_address: int = 0
    max_waiting: int = 1_024
    max_waiting_of_address: int = 256
    max_refused: int = 256
    max_in_flight: int = 5_000
    max_unsent_bytes: int = 1024 * 1024
    max_message_bytes: int = 5 * 1024 * 1024
    connect_limit_s: float = 10.0
    keep_alive_s: float = 30.0
    request_limit_s: float = 30.0
    refresh_check_s: float = 60.0
    linger_s: float = 1.0
    audit: AuditLog | None = None
    wall_ms: Callable[[], int] = SystemClock().wall_ms
