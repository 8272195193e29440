"""The lines of a load report, one a bundle: read, and written a few at a time.

They are nearly all of a report, and the part that grows with the number of bundles: a broker of
10,000 bundles would block its event loop while it writes megabytes at once.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.codec import encode
from broker_ctl.core.model.load import BundleStats, TimeAverage
from broker_ctl.store.records.fields import Fields

# The name is written twice, in the statistics and in the list of bundles, with quotes, colon and
# commas; the rest is eight fields, four of them doubles of at most 24 characters and four integers
# of at most 20.
_NAMES_BYTES: Final = 8
_FIELDS_BYTES: Final = 320


def line_bytes(bundle: str) -> int:
    """Upper bound on the bytes of a bundle in a report."""
    return 2 * len(bundle.encode()) + _NAMES_BYTES + _FIELDS_BYTES


def encode_rates(rates: BundleStats | TimeAverage) -> dict[str, Any]:
    """Java distinguishes doubles from integers by the payload, so rates are always floats."""
    return {
        "msgThroughputIn": float(rates.msg_throughput_in),
        "msgThroughputOut": float(rates.msg_throughput_out),
        "msgRateIn": float(rates.msg_rate_in),
        "msgRateOut": float(rates.msg_rate_out),
    }


def _encode_stats(stats: BundleStats) -> Mapping[str, Any]:
    return {
        **encode_rates(stats),
        "consumerCount": stats.consumers,
        "producerCount": stats.producers,
        "topics": stats.topics,
        "cacheSize": stats.cache_size_bytes,
    }


def _decode_stats(fields: Fields) -> BundleStats:
    return BundleStats(
        fields.number("msgRateIn"),
        fields.number("msgRateOut"),
        fields.number("msgThroughputIn"),
        fields.number("msgThroughputOut"),
        fields.count("topics"),
        fields.count("producerCount"),
        fields.count("consumerCount"),
        fields.count("cacheSize"),
    )


def encode_lines(bundles: Mapping[str, BundleStats]) -> bytes:
    """A JSON object of the statistics by bundle."""
    return encode({bundle: _encode_stats(stats) for bundle, stats in bundles.items()})


def join_report(head: bytes, parts: Mapping[str, bytes]) -> bytes:
    """A JSON object with more fields, whose values are JSON already."""
    fields = [encode(name) + b":" + value for name, value in parts.items()]
    return b",".join([head[:-1], *fields]) + b"}"


def decode_lines(fields: Fields, name: str) -> tuple[dict[str, BundleStats], BundleStats, int]:
    """The lines of a report.

    Also the sum and the number of the bundles that were left out to bound its size.
    """
    parent = fields.child(name)
    lines = {bundle: _decode_stats(parent.child(bundle)) for bundle in parent.values}
    unlisted = max(0, fields.count("numBundles") - len(lines))
    return lines, _rest(fields, lines) if unlisted else BundleStats(), unlisted


def _rest(fields: Fields, lines: Mapping[str, BundleStats]) -> BundleStats:
    """The part of a report's totals that its lines do not account for."""
    listed = BundleStats.total_of(lines.values())
    return BundleStats(
        max(0.0, fields.number("msgRateIn") - listed.msg_rate_in),
        max(0.0, fields.number("msgRateOut") - listed.msg_rate_out),
        max(0.0, fields.number("msgThroughputIn") - listed.msg_throughput_in),
        max(0.0, fields.number("msgThroughputOut") - listed.msg_throughput_out),
        max(0, fields.count("numTopics") - listed.topics),
        max(0, fields.count("numProducers") - listed.producers),
        max(0, fields.count("numConsumers") - listed.consumers),
    )
