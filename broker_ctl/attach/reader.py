"""Reads a whole cluster by its admin API, and has brokers acquire bundles."""

import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from broker_ctl.attach.admin import PulsarAdmin, decoded
from broker_ctl.attach.cluster_balancer import Samples, parse_samples
from broker_ctl.core.model.names import NON_PERSISTENT, Bundle, Namespace, Topic, ring_hash
from broker_ctl.errors import BrokerCtlError, InvalidName, PeerRefused, PeerUnreachable
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Has a broker acquire a bundle that was unloaded for it, before a client's lookup places it.
#
# The modular manager hands a destination out once, to the first lookup; a second one that arrives
# before the destination has acquired the bundle is placed by load (Pulsar issue 24884). A lookup
# that is sent to the destination as authoritative is not placed at all: that broker acquires the
# bundle (docs: pulsar-placement). Such lookups, sent until one succeeds, leave clients no time in
# between.


# Between two lookups. An unload takes some hundred milliseconds; each lookup that comes too early
# is answered from the memory of the broker.
_PAUSE: Final = Backoff(first_s=0.04, factor=1.0, max_s=0.04)
# The chance that none of these names is in one of 10,000 equal bundles is 1 in 22,000.
_NAMES: Final = 100_000


@asynccontextmanager
async def claiming(
    admin: PulsarAdmin,
    bundle: Bundle,
    destination: str,
    check: Callable[[], None],
    *,
    rng: random.Random,
) -> AsyncIterator[None]:
    """Claim the bundle for ``destination`` during the block, in which it is unloaded.

    ``check`` raises when this process may not act any more.
    """
    topic = topic_in(bundle)
    if topic is None:
        yield
        return
    async with TaskScope(f"claim {bundle}") as tasks:
        tasks.start(_claim(admin, topic, destination, check, rng), "lookups")
        yield


async def _claim(
    admin: PulsarAdmin,
    topic: Topic,
    destination: str,
    check: Callable[[], None],
    rng: random.Random,
) -> None:
    async def look_up() -> None:
        check()
        await _acquire(admin, topic, destination)

    try:
        await retry(
            look_up,
            f"{destination} cannot acquire the bundle of {topic} yet",
            rng=rng,
            judge=is_any(PeerUnreachable),
            backoff=_PAUSE,
            level=logging.DEBUG,
        )
    except BrokerCtlError as error:
        log.debug("%s is not claimed for %s: %s", topic, destination, error)


async def _acquire(admin: PulsarAdmin, topic: Topic, broker_id: str) -> None:
    """Have a broker acquire the bundle of a topic, if nobody owns it.

    Raises:
        PeerUnreachable: another broker owns it still, or it is being unloaded.
        PeerRefused: the lookup is not allowed.
    """
    path = f"lookup/v2/topic/{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}"
    found = decoded(path, await admin.ask(path, broker_id, {"authoritative": "true"}))
    urls = {str(found.get(name) or "").rstrip("/") for name in ("httpUrl", "httpUrlTls")}
    if admin.url_of(broker_id) not in urls:
        raise PeerUnreachable(f"{path}: the owner is at {' or '.join(sorted(urls))}")


def topic_in(bundle: Bundle) -> Topic | None:
    """A topic of the bundle that need not exist, and that a lookup does not create.

    Pulsar cannot know whether a non-persistent topic exists, so it looks each one up.
    """
    for number in range(_NAMES):
        name = f"{NON_PERSISTENT}://{bundle.namespace}/broker-ctl-claim-{number}"
        if ring_hash(name) in bundle.range:
            return Topic.parse(name)
    return None


# Reads a whole cluster by its admin API: who owns what, its rings and its policies.
#
# Everything is asked of the brokers, so it is what they use, whichever store that is in.


_ANTI_AFFINITY: Final = "namespaceAntiAffinityGroup"


class ClusterReader:
    """Reads of one cluster; each may raise `PeerUnreachable` or `PeerRefused`."""

    def __init__(self, admin: PulsarAdmin, cluster: str) -> None:
        self._admin = admin
        self._cluster = cluster

    async def clusters(self) -> list[str]:
        """The names of the clusters that the brokers know."""
        names = (await self._admin.ask("clusters")).json()
        if not isinstance(names, list):
            raise PeerUnreachable("clusters: not a list")
        return [str(name) for name in names]

    async def brokers(self) -> tuple[str, ...]:
        """Ids of the live brokers."""
        return await self._admin.brokers()

    async def owned(self, broker_id: str) -> frozenset[Bundle]:
        """The bundles that a broker owns, those of its own namespaces for health checks as well."""
        path = f"brokers/{self._cluster}/{broker_id}/ownedNamespaces"
        found = decoded(path, await self._admin.ask(path, broker_id))
        return frozenset(bundle for text in found if (bundle := _bundle(text)) is not None)

    async def ring(self, namespace: Namespace) -> Mapping[str, Any] | None:
        """The boundaries of a namespace's bundles, as its policies have them; None: it is gone."""
        return await self._object_or_none(f"namespaces/{namespace}/bundles")

    async def anti_affinity_group(self, namespace: Namespace) -> str | None:
        """The group of namespaces whose bundles are kept apart."""
        try:
            reply = await self._admin.ask(f"namespaces/{namespace}/antiAffinity")
        except PeerRefused as error:
            if error.kind == "NotFound":
                return None
            raise
        text = reply.body.decode(errors="replace").strip()
        return text.strip('"') if text not in {"", "null"} else None

    async def isolation_policies(self) -> Mapping[str, Any]:
        """Isolation policies by name, as the configuration has them."""
        path = f"clusters/{self._cluster}/namespaceIsolationPolicies"
        return await self._object_or_none(path) or {}

    async def failure_domains(self) -> Mapping[str, Any]:
        """Failure domains by name."""
        return await self._object_or_none(f"clusters/{self._cluster}/failureDomains") or {}

    async def version(self, broker_id: str) -> str:
        """The release that a broker runs."""
        reply = await self._admin.ask("brokers/version", broker_id)
        return reply.body.decode(errors="replace").strip().strip('"')

    async def topics(self, broker_id: str) -> Mapping[str, Any]:
        """Statistics of a broker's topics, by namespace, bundle and domain."""
        return decoded("topics", await self._admin.ask("broker-stats/topics", broker_id))

    async def metrics(self, broker_id: str) -> Samples:
        """Samples of a broker's own metrics."""
        reply = await self._admin.ask("metrics/", broker_id)
        return parse_samples(reply.body.decode(errors="replace"))

    async def _object_or_none(self, path: str) -> Mapping[str, Any] | None:
        try:
            reply = await self._admin.ask(path)
        except PeerRefused as error:
            if error.kind == "NotFound":
                return None
            raise
        # Where a cluster has none, some releases answer without a body.
        return decoded(path, reply) if reply.body else None


def _bundle(text: str) -> Bundle | None:
    try:
        return Bundle.parse(text)
    except InvalidName:
        return None
