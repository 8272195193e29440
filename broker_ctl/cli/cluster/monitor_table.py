"""Load reports of a cluster as `pulsar-perf monitor-brokers` shows them, and as JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from broker_ctl.cli.cluster.monitor_reports import BrokerLine, Reading
from broker_ctl.cli.runtime.output import print_table
from broker_ctl.core.model.load import BundleStats, UsageWeights, max_usage
from broker_ctl.core.model.load_vector import throughput_text
from broker_ctl.store import paths
from broker_ctl.store.records.load import TimeAverageBrokerData

# Pulsar's MAX counts all resources but the heap.
_WEIGHTS: Final = UsageWeights(direct_memory=1.0)
_OVERVIEW: Final = ("broker", "updated", "max %", "topics", "bundles", "msg/s", "throughput")
_USAGE: Final = ("cpu %", "memory %", "direct %", "bw in %", "bw out %", "max %")
_RATE_FIELDS: Final = {
    "in_msg_per_s": "msg_rate_in",
    "out_msg_per_s": "msg_rate_out",
    "in_bytes_per_s": "msg_throughput_in",
    "out_bytes_per_s": "msg_throughput_out",
}
_COUNTS: Final = ("topics", "bundles", "producers", "consumers", "gained", "lost")
_RATES: Final = ("msg/s in", "msg/s out", "total", "bytes in", "bytes out", "total")


def to_row(reading: Reading, wall_ms: int) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "at_ms": wall_ms,
        "brokers": [_broker_row(line, wall_ms) for line in reading.brokers],
        "skipped": [asdict(one) for one in reading.skipped],
    }


def _broker_row(line: BrokerLine, wall_ms: int) -> dict[str, Any]:
    report, usage = line.report, line.report.usage
    names = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
    ratios = (resource.percent / 100 for resource in usage.resources)
    return {
        "broker": line.broker_id,
        "manager": report.manager,
        "age_s": _age_s(line, wall_ms),
        "usage_ratio": dict(zip(names, ratios, strict=True)) | {"max": max_usage(usage, _WEIGHTS)},
        "topics": report.total.topics,
        "bundles": report.bundles,
        "producers": report.total.producers,
        "consumers": report.total.consumers,
        "bundles_gained": report.gained,
        "bundles_lost": report.lost,
        "latest": _latest(report.total),
        "short_term": _term(line.average, "short"),
        "long_term": _term(line.average, "long"),
    }


def _latest(total: BundleStats) -> dict[str, float]:
    return {name: getattr(total, field) for name, field in _RATE_FIELDS.items()}


def _term(average: TimeAverageBrokerData | None, term: str) -> dict[str, float] | None:
    """The averages of one term by the names of `_latest`; None if no leader wrote any."""
    if average is None:
        return None
    return {name: getattr(average, f"{term}_{field}") for name, field in _RATE_FIELDS.items()}


def _age_s(line: BrokerLine, wall_ms: int) -> float | None:
    """Age of a report by the broker's clock and ours; 0 if the broker's is ahead."""
    updated_ms = line.report.updated_ms
    return max(0, wall_ms - updated_ms) / 1000 if updated_ms > 0 else None


def show(reading: Reading, wall_ms: int, source: str) -> None:
    """Print a table of all brokers, a table for each, and the skipped nodes."""
    rows = [_broker_row(line, wall_ms) for line in reading.brokers]
    if rows:
        print_table(f"brokers at {source}: {len(rows)}", _OVERVIEW, map(_overview, rows))
    for row in rows:
        title = f"{row['broker']} ({row['manager']}, {_age(row)})"
        print_table(title, [""] * 7, _details(row))
    if not rows:
        print_table("", ["brokers"], [[_no_reports_text(reading, source)]])
    if reading.skipped:
        skipped = ((one.node, one.reason) for one in reading.skipped)
        print_table(f"skipped: {len(reading.skipped)}", ("node", "why"), skipped)


def _no_reports_text(reading: Reading, source: str) -> str:
    if reading.path_exists:
        return f"no usable load report at {source}"
    return no_path_text(source)


def no_path_text(source: str) -> str:
    """The message if the parent node of reports does not exist."""
    return f"{source} has no {paths.LOAD_REPORTS}; check the chroot"


def _overview(row: dict[str, Any]) -> Iterable[object]:
    msg_in, msg_out, bytes_in, bytes_out = row["latest"].values()
    return (
        row["broker"],
        _age(row),
        row["usage_ratio"]["max"] * 100,
        row["topics"],
        row["bundles"],
        msg_in + msg_out,
        throughput_text(bytes_in + bytes_out),
    )


def _age(row: dict[str, Any]) -> str:
    return "no time" if row["age_s"] is None else f"{row['age_s']:.0f} s ago"


def _details(row: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    yield ("system", *_USAGE)
    yield ("usage", *(ratio * 100 for ratio in row["usage_ratio"].values()))
    yield ("count", *_COUNTS)
    counts = ("topics", "bundles", "producers", "consumers", "bundles_gained", "bundles_lost")
    yield ("now", *(row[name] for name in counts))
    yield ("rates", *_RATES)
    for name in ("latest", "short_term", "long_term"):
        yield (name.removesuffix("_term"), *_rates(row[name]))


def _rates(rates: dict[str, float] | None) -> tuple[object, ...]:
    if rates is None:
        return (None,) * len(_RATES)
    msg_in, msg_out, bytes_in, bytes_out = rates.values()
    throughput = map(throughput_text, (bytes_in, bytes_out, bytes_in + bytes_out))
    return msg_in, msg_out, msg_in + msg_out, *throughput
