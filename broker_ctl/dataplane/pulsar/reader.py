"""Reads a whole cluster by its admin API: who owns what, its rings and its policies.

Everything is asked of the brokers, so it is what they use, whichever store that is in.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.dataplane.pulsar.admin import PulsarAdmin, decoded
from broker_ctl.dataplane.pulsar.exposition import Samples, parse_samples
from broker_ctl.errors import InvalidName, PeerRefused, PeerUnreachable

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
