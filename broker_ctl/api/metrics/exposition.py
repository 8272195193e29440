"""``GET /metrics``: the one importer of prometheus_client; values are read at each scrape."""

from collections.abc import Iterable, Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker_ctl.instruments.kinds import Instrument


class InstrumentCollector(Collector):
    """Renders instruments, each series with the name of the cluster."""

    def __init__(self, instruments: Iterable[Instrument], cluster: str) -> None:
        self._instruments = tuple(instruments)
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        """One family per instrument."""
        for instrument in self._instruments:
            # The format adds a counter's suffix to the name of its family by itself.
            family = Metric(
                instrument.name.removesuffix("_total"), instrument.help, instrument.kind
            )
            for sample in instrument.samples():
                labels = {"cluster": self._cluster, **sample.labels}
                family.add_sample(sample.name, labels, sample.value)
            yield family

    def describe(self) -> list[Metric]:
        """Registering reads nothing yet."""
        return []


class MetricsRoutes:
    """All that is measured, and the process itself."""

    def __init__(self, instruments: Iterable[Instrument], cluster: str) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(InstrumentCollector(instruments, cluster))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/metrics", self.scrape)]

    async def scrape(self, request: web.Request) -> web.Response:
        """In the format that the scraper asks for: Prometheus text, or OpenMetrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})
