"""A binary server over a cluster in memory."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ssl import SSLContext
from typing import Any, Final

from broker_ctl.api.binary.dependencies import BinaryDependencies, BinaryListener, BinaryRules
from broker_ctl.api.binary.server import BinaryServer
from broker_ctl.api.http.limits.requests import ConcurrencyLimit
from broker_ctl.clock import SystemClock
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls, LookupUrls
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.instruments.clients import BinaryInstruments, BoundInstruments, SecurityInstruments
from broker_ctl.instruments.declared import ApiInstruments
from broker_ctl.security.authorization import Authorization, Grants, Resource
from broker_ctl.security.client_limits import FailureDelays, RateLimits, RequestRates
from tests.support.clusters.fake_services import (
    RING,
    MemoryCluster,
    MemoryLookup,
    MemoryOwnership,
    World,
)
from tests.support.http.certificates import serving_context

RULES: Final = BinaryRules("broker-ctl 0", linger_s=0.2)
SELF: Final = BrokerUrls(
    "self:8080",
    native_url="pulsar://self:6650",
    native_url_tls="pulsar+ssl://self:6651",
    listeners=(AdvertisedListener("external", "pulsar://outside:1"),),
)
OTHER: Final = BrokerUrls("other:8080", native_url="pulsar://other:6650")
DAEMON: Final = LookupUrls("pulsar://other:6640", "pulsar+ssl://other:6641")


def no_delays() -> FailureDelays:
    """Failed authentications are answered at once."""
    return FailureDelays(0.0, SystemClock(), SecurityInstruments().authentication_failures)


@dataclass
class Partitions:
    """Partitioned topics, and what was asked of them."""

    counts: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refuse: Exception | None = None

    async def of(self, topic: Topic) -> int:
        self.asked.append(str(topic))
        if self.refuse is not None:
            raise self.refuse
        return self.counts.get(str(topic), 0)


@dataclass
class Topics:
    """The topics of every namespace, and who asked for which domains."""

    names: list[str] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    async def of(self, namespace: Namespace, domains: Collection[str]) -> list[str]:
        self.asked.append((str(namespace), tuple(domains)))
        return self.names


class Served:
    """One broker of a world of two: it leads, and all of its parts may be changed by a test."""

    def __init__(
        self,
        rules: BinaryRules,
        max_lookups: int,
        tls: SSLContext | None = None,
        limits: RateLimits | None = None,
    ) -> None:
        self.world = World(brokers={urls.broker_id: urls for urls in (SELF, OTHER)})
        self.world.leader_id = SELF.broker_id
        ownership = MemoryOwnership(self.world, SELF)
        self.lookup = MemoryLookup(self.world, ownership, MemoryCluster(self.world))
        self.partitions = Partitions()
        self.grants = Grants()
        self.remembers_grants = False
        self.grants_version = 0
        self.topics = Topics()
        self.daemons: dict[str, LookupUrls] = {OTHER.broker_id: DAEMON}
        self.instruments = BinaryInstruments()
        self.rate_limited = ApiInstruments().rate_limited
        self.bound = ConcurrencyLimit("lookups", max_lookups)
        self.dependencies = BinaryDependencies(
            lookup=self.lookup,
            bound=self.bound,
            lookup_urls_of=self.daemons.get,
            partitions_of=self.partitions.of,
            authorization=Authorization(
                rules.policy,
                self.grants_of,
                lambda _: self.grants if self.remembers_grants else None,
                lambda grants: grants is self.grants,
                lambda: self.grants_version,
            ),
            topics_of=self.topics.of,
            instruments=self.instruments,
            bounds=BoundInstruments(),
            failures=no_delays(),
            clock=SystemClock(),
            rates=RequestRates(limits or RateLimits(), "binary", SystemClock(), self.rate_limited),
        )
        self.server = BinaryServer(
            self.dependencies,
            rules,
            (
                BinaryListener("127.0.0.1", 0, "plainPort"),
                BinaryListener("127.0.0.1", 0, "tlsPort", tls or serving_context()),
            ),
        )

    async def grants_of(self, _: Resource) -> Grants:
        return self.grants

    @property
    def port(self) -> int:
        return self.server.ports[0]

    @property
    def tls_port(self) -> int:
        return self.server.ports[1]

    def assign(self, urls: BrokerUrls, topic: str) -> None:
        """Have a broker own a topic's bundle; it is known from now on by these addresses."""
        self.world.brokers[urls.broker_id] = urls
        self.world.assign(RING.bundle_of(Topic.parse(topic)), urls.broker_id)

    def counted(self) -> dict[tuple[str, str], float]:
        """Commands by type and result."""
        return {
            (sample.labels["type"], sample.labels["result"]): sample.value
            for sample in self.instruments.commands.samples()
        }

    def connections(self) -> float:
        """The number of connections in the gauge."""
        return next(iter(self.instruments.connections.samples())).value


@asynccontextmanager
async def serving(
    rules: BinaryRules = RULES,
    *,
    max_lookups: int = 100,
    tls: SSLContext | None = None,
    limits: RateLimits | None = None,
    **changes: Any,
) -> AsyncIterator[Served]:
    """A server on free ports of loopback."""
    served = Served(replace(rules, **changes), max_lookups, tls, limits)
    await served.server.start()
    try:
        yield served
    finally:
        await served.server.stop(1.0)
