"""``GET /metrics``: the one importer of prometheus_client.

Values are read at most once a second and format: to render them takes some ten milliseconds of the
event loop, and any client may scrape.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    exposition,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from broker_ctl.api.http.responses import ApiResponse
from broker_ctl.clock import Clock
from broker_ctl.instruments.kinds import Instrument

_OPENMETRICS: Final = "application/openmetrics-text"
_TEXT_KINDS: Final = ("text/plain", "text/*", "*/*")
_MAX_AGE_S: Final = 1.0


@dataclass(slots=True)
class _Page:
    """One format of the metrics, and its last rendering on `Clock.now_s`."""

    content_type: str
    encode: Callable[[Collector], bytes]
    rendered_s: float = float("-inf")
    body: bytes = b""


class InstrumentCollector(Collector):
    """Renders instruments, each series with the name of the cluster."""

    def __init__(self, instruments: Iterable[Instrument], cluster: str) -> None:
        self._instruments = tuple(instruments)
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        """One family per instrument."""
        for instrument in self._instruments:
            # The format itself adds a counter's suffix to the name of its family.
            name = instrument.name.removesuffix("_total")
            family = Metric(name, instrument.help, instrument.kind)
            for sample in instrument.samples():
                labels = {"cluster": self._cluster, **sample.labels}
                family.add_sample(sample.name, labels, sample.value)
            yield family

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read values."""
        return []


def prefers_openmetrics(accepted: str) -> bool:
    """Whether a header Accept names OpenMetrics, and no other format with a higher quality."""
    qualities: dict[str, float] = {}
    for item in accepted.split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        texts = [text[2:] for text in parameters if text.startswith("q=")]
        try:
            quality = float(texts[0]) if texts else 1.0
        except ValueError:
            quality = 0.0
        qualities[kind] = max(quality, qualities.get(kind, 0.0))
    wanted = qualities.pop(_OPENMETRICS, 0.0)
    return wanted > 0 and wanted >= max(qualities.get(kind, 0.0) for kind in _TEXT_KINDS)


class MetricsRoutes:
    """All instruments, and metrics of the process."""

    def __init__(self, instruments: Iterable[Instrument], cluster: str, clock: Clock) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(InstrumentCollector(instruments, cluster))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._clock = clock
        # Only these two: a client that varies a format's version must not have it rendered again.
        self._text = _Page(exposition.CONTENT_TYPE_PLAIN_0_0_4, exposition.generate_latest)
        self._openmetrics = _Page(openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest)

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/metrics", self.scrape)]

    async def scrape(self, request: web.Request) -> web.Response:
        """Prometheus text, or OpenMetrics if the client accepts it; at most a second old."""
        accepted = request.headers.get("Accept", "")
        page = self._openmetrics if prefers_openmetrics(accepted) else self._text
        now_s = self._clock.now_s()
        if now_s - page.rendered_s >= _MAX_AGE_S:
            page.body = page.encode(self._registry)
            page.rendered_s = now_s
        return ApiResponse(body=page.body, headers={"Content-Type": page.content_type})
