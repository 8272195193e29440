"""``GET /metrics``: the one importer of prometheus_client; values are read at each scrape."""

from collections.abc import Iterable, Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker_ctl.api.http.responses import ApiResponse
from broker_ctl.instruments.kinds import Instrument, Sample
from broker_ctl.instruments.renamed import RENAMED, earlier_help, earlier_samples


class InstrumentCollector(Collector):
    """Renders instruments, each series with the name of the cluster."""

    def __init__(self, instruments: Iterable[Instrument], cluster: str) -> None:
        self._instruments = tuple(instruments)
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        """One family per instrument, and one more under the earlier name of a renamed one."""
        for instrument in self._instruments:
            samples = tuple(instrument.samples())
            yield self._family(instrument.name, instrument.help, instrument.kind, samples)
            if earlier := RENAMED.get(instrument.name):
                yield self._family(
                    earlier.name,
                    earlier_help(instrument),
                    instrument.kind,
                    earlier_samples(instrument, earlier, samples),
                )

    def _family(self, name: str, says: str, kind: str, samples: Iterable[Sample]) -> Metric:
        # The format itself adds a counter's suffix to the name of its family.
        family = Metric(name.removesuffix("_total"), says, kind)
        for sample in samples:
            labels = {"cluster": self._cluster, **sample.labels}
            family.add_sample(sample.name, labels, sample.value)
        return family

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read values."""
        return []


class MetricsRoutes:
    """All instruments, and metrics of the process."""

    def __init__(self, instruments: Iterable[Instrument], cluster: str) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(InstrumentCollector(instruments, cluster))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/metrics", self.scrape)]

    async def scrape(self, request: web.Request) -> web.Response:
        """In the format that the scraper accepts: Prometheus text or OpenMetrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return ApiResponse(body=encode(self._registry), headers={"Content-Type": content_type})
