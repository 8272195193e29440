"""Time series of a monitoring system, and Prometheus's in its HTTP API."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode

from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic
from broker_ctl.errors import HttpError, InvalidName, PipelineError
from broker_ctl.http_client import HttpClient
from broker_ctl.pipeline.importing.observed import Observed

# Pulsar's series, wherever they were recorded, and what they say of each moment.


# Series of bundles, which Pulsar exposes with exposeBundlesMetricsInPrometheus.
_OF_BUNDLES: Final = {
    "pulsar_bundle_msg_rate_in": "msg_rate_in",
    "pulsar_bundle_msg_rate_out": "msg_rate_out",
    "pulsar_bundle_msg_throughput_in": "bytes_in",
    "pulsar_bundle_msg_throughput_out": "bytes_out",
    "pulsar_bundle_topics_count": "topics",
    "pulsar_bundle_producer_count": "producers",
    "pulsar_bundle_consumer_count": "consumers",
}
# Series of topics, which it exposes by default.
_OF_TOPICS: Final = {
    "pulsar_rate_in": "msg_rate_in",
    "pulsar_rate_out": "msg_rate_out",
    "pulsar_throughput_in": "bytes_in",
    "pulsar_throughput_out": "bytes_out",
    "pulsar_producers_count": "producers",
    "pulsar_consumers_count": "consumers",
}
_OF_BROKERS: Final = {
    "pulsar_lb_cpu_usage": "cpu",
    "pulsar_lb_memory_usage": "memory",
    "pulsar_lb_directMemory_usage": "direct_memory",
    "pulsar_lb_bandwidth_in_usage": "bandwidth_in",
    "pulsar_lb_bandwidth_out_usage": "bandwidth_out",
}


METRICS: Final = frozenset({*_OF_BUNDLES, *_OF_TOPICS, *_OF_BROKERS})


class TimeSpan(NamedTuple):
    """Moments that are asked for, both ends included."""

    first_ms: int
    last_ms: int
    step_ms: int


class TimeSeries(NamedTuple):
    """Values of one series, with their times."""

    labels: Mapping[str, str]
    values: list[tuple[int, float]]


class Recording(Protocol):
    """Where series were recorded."""

    async def query(self, metric: str, labels: tuple[str, ...], span: TimeSpan) -> list[TimeSeries]:
        """The sums of a metric by these labels; series without one of them are left out."""
        ...


async def observe(recording: Recording, bundles: int, span: TimeSpan) -> list[Observed]:
    """What was recorded, by time; moments without a bundle are left out.

    Args:
        recording: that is asked.
        bundles: number of bundles of a namespace, for clusters that expose topics only.
        span: of the moments.

    Raises:
        HttpError: a server cannot be reached, or its answer is too large.
        PipelineError: it refuses, or what it says is not what Pulsar exposes.
    """
    moments: dict[int, Observed] = {}
    has_bundles = False
    for metric, name in _OF_BUNDLES.items():
        for series in await recording.query(metric, ("broker", "bundle"), span):
            has_bundles = True
            bundle = _parse_bundle(metric, series.labels)
            for at_ms, value in series.values:
                observed = moments.setdefault(at_ms, Observed(at_ms))
                observed.add(bundle, series.labels["broker"], name, value)
    if not has_bundles:
        await _observe_topics(recording, bundles, span, moments)
    for metric, name in _OF_BROKERS.items():
        for series in await recording.query(metric, ("broker",), span):
            for at_ms, value in series.values:
                if at_ms in moments:
                    usages = moments[at_ms].usages.setdefault(series.labels["broker"], {})
                    usages[name] = value
    return [moments[at_ms] for at_ms in sorted(moments)]


async def _observe_topics(
    recording: Recording, bundles: int, span: TimeSpan, moments: dict[int, Observed]
) -> None:
    rings: dict[Namespace, Ring] = {}
    for metric, name in _OF_TOPICS.items():
        for series in await recording.query(metric, ("instance", "namespace", "topic"), span):
            topic = _parse_topic(metric, series.labels)
            namespace = topic.namespace
            if namespace not in rings:
                rings[namespace] = Ring.even(namespace, bundles)
            bundle, broker = rings[namespace].bundle_of(topic), series.labels["instance"]
            for at_ms, value in series.values:
                observed = moments.setdefault(at_ms, Observed(at_ms))
                observed.add(bundle, broker, name, value)
                if name == "msg_rate_in":
                    observed.add(bundle, broker, "topics", 1.0)


def _parse_bundle(metric: str, labels: Mapping[str, str]) -> Bundle:
    try:
        return Bundle.parse(labels["bundle"])
    except InvalidName as error:
        raise PipelineError(f"{metric}: {error}") from error


def _parse_topic(metric: str, labels: Mapping[str, str]) -> Topic:
    try:
        return Topic.parse(labels["topic"])
    except InvalidName as error:
        raise PipelineError(f"{metric}: {error}") from error


# Reads Pulsar's series from Prometheus by its HTTP API.


class SeriesSource(NamedTuple):
    """A server, and the cluster whose series are read.

    Attributes:
        url: of the server, with the path that its API is below.
        cluster: value of the label ``cluster``; None: series are not selected by it.
    """

    url: str
    cluster: str | None


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that is asked; a `series.Recording`."""

    client: HttpClient
    source: SeriesSource

    async def query(self, metric: str, labels: tuple[str, ...], span: TimeSpan) -> list[TimeSeries]:
        """See `series.Recording`."""
        chosen = [f'{label}!=""' for label in labels]
        if self.source.cluster is not None:
            chosen.append(f'cluster="{_quoted(self.source.cluster)}"')
        asked = {
            "query": f"sum by ({', '.join(labels)}) ({metric}{{{', '.join(chosen)}}})",
            "start": f"{span.first_ms / 1000:.3f}",
            "end": f"{span.last_ms / 1000:.3f}",
            "step": f"{span.step_ms / 1000:g}s",
        }
        url = f"{self.source.url.rstrip('/')}/api/v1/query_range?{urlencode(asked)}"
        reply = await self.client.request("GET", url)
        try:
            answer = reply.json()
        except HttpError as error:
            raise PipelineError(f"{self.source.url}: this is not a Prometheus: {error}") from error
        if not isinstance(answer, dict) or answer.get("status") != "success":
            said = answer.get("error") if isinstance(answer, dict) else answer
            raise PipelineError(f"{self.source.url}: {metric}: status {reply.status}: {said}")
        return list(_series_of(self.source.url, answer, labels))


def _series_of(
    url: str, answer: Mapping[str, Any], labels: tuple[str, ...]
) -> Iterator[TimeSeries]:
    try:
        for each in answer["data"]["result"]:
            found = {label: str(each["metric"][label]) for label in labels}
            values = ((round(float(at_s) * 1000), float(text)) for at_s, text in each["values"])
            # A rate that is not a number, or below 0, is none.
            yield TimeSeries(found, [pair for pair in values if 0 <= pair[1] < math.inf])
    except (LookupError, TypeError, ValueError) as error:
        raise PipelineError(f"{url}: its answer is not Prometheus': {error!r}") from error


def _quoted(value: str) -> str:
    """A value in a selector of PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
