"""What the calls are made at: three daemons of ours, or three brokers of a real Pulsar."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from tests.support.daemon.running_daemons import make_namespace
from tests.support.pulsar.cluster import pulsar_cluster
from tests.support.pulsar.distribution import Distribution
from tests.support.pulsar.files import CLUSTER
from tests.support.zookeeper.proxy import PeerProxy

_BROKERS: Final = 3
# Machines are shared: a bound on what hangs.
_READY_S: Final = 240.0
_STILL: Final = {
    # What the calls do to bundles, nothing undoes.
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster, as clients see it.

    Attributes:
        web: a URL of its admin API; ``binary``: one of its binary protocol.
    """

    web: str
    binary: str
    cluster: str
    brokers: Sequence[str]

    @property
    def arguments(self) -> Sequence[str]:
        """As the programs of the clients take them."""
        return (self.web, self.binary, self.cluster, *self.brokers)


@asynccontextmanager
async def our_daemons(directory: Path) -> AsyncIterator[Target]:
    """Three daemons with simulated planes, and the namespace that every Pulsar has."""
    async with (
        Ensemble.of(directory / "zookeeper", heap_mb=128) as ensemble,
        HttpClient(timeout_s=30.0, max_body_bytes=8 << 20) as http,
    ):
        url = f"zk:{ensemble.connect_string}/clients"
        settings = {**SETTINGS, "metadataStoreUrl": url, "clusterName": CLUSTER, **_STILL}
        async with Daemons(directory, _BROKERS, settings) as daemons, AsyncExitStack() as stack:
            for daemon in daemons.all:
                await daemon.wait_ready(http, _READY_S)
                # Some libraries connect to the broker that a lookup names before they believe it.
                # There the daemon answers, too, and serves no topic.
                await stack.enter_async_context(
                    PeerProxy.to(daemon.lookup_port, port=daemon.service_port)
                )
            first = daemons.all[0]
            await make_namespace(http, first)
            yield Target(
                first.url,
                first.lookup_url,
                CLUSTER,
                [daemon.broker_id for daemon in daemons.all],
            )


@contextmanager
def real_pulsar(directory: Path, pulsar: Distribution) -> Iterator[Target]:
    """Three brokers of a release, as `tests/pulsar` runs them."""
    with pulsar_cluster(directory, pulsar, brokers=_BROKERS) as running:
        first = running.brokers[0]
        yield Target(
            first.url, first.service_url, CLUSTER, [broker.id for broker in running.brokers]
        )
