"""Pulsar's series, wherever they were recorded, and what they say of each moment."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.core.model.namespace import Ring
from broker_ctl.errors import InvalidName, PipelineError
from broker_ctl.pipeline.importing.observed import Observed

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


class Span(NamedTuple):
    """Moments that are asked for, both ends included."""

    first_ms: int
    last_ms: int
    step_ms: int


class Series(NamedTuple):
    """Values of one series, with their times."""

    labels: Mapping[str, str]
    values: list[tuple[int, float]]


class Recording(Protocol):
    """Where series were recorded."""

    async def query(self, metric: str, labels: tuple[str, ...], span: Span) -> list[Series]:
        """The sums of a metric by these labels; series without one of them are left out."""
        ...


async def observe(recording: Recording, bundles: int, span: Span) -> list[Observed]:
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
    recording: Recording, bundles: int, span: Span, moments: dict[int, Observed]
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
