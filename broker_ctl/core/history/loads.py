"""Rows of what a leader saw in one cycle: brokers, bundles, boundaries, capacities.

Rates have the names that they have in traces of bundles (`simulation/traces/trace_rows.py`).
"""

from typing import Annotated, NamedTuple

from broker_ctl.core.history.columns import Tells


class BrokerLoadRow(NamedTuple):
    """A live broker that has reported."""

    broker: Annotated[str, Tells("whose load")]
    usage_ratio: Annotated[float, Tells("weighted maximum of its resources, 1.0 is full")]
    expected_usage_ratio: Annotated[
        float, Tells("the same, corrected for bundles that came or went since its report")
    ]
    cpu_percent: Annotated[float, Tells("processor time of its limit", "%")]
    memory_percent: Annotated[float, Tells("heap of its limit", "%")]
    direct_memory_percent: Annotated[float, Tells("direct memory of its limit", "%")]
    bandwidth_in_percent: Annotated[float, Tells("incoming bandwidth of its limit", "%")]
    bandwidth_out_percent: Annotated[float, Tells("outgoing bandwidth of its limit", "%")]
    msg_rate_in: Annotated[float, Tells("of all its bundles", "msg/s")]
    msg_rate_out: Annotated[float, Tells("of all its bundles", "msg/s")]
    bytes_in: Annotated[float, Tells("of all its bundles", "bytes/s")]
    bytes_out: Annotated[float, Tells("of all its bundles", "bytes/s")]
    bundles: Annotated[int, Tells("how many it reported")]
    topics: Annotated[int, Tells("of all its bundles")]
    producers: Annotated[int, Tells("of all its bundles")]
    consumers: Annotated[int, Tells("of all its bundles")]
    unlisted_bundles: Annotated[int, Tells("of its bundles, those that its report only sums up")]
    report_age_s: Annotated[float, Tells("since its report came in, on the leader's clock", "s")]
    reported_at_ms: Annotated[int, Tells("when it reported, on its clock", "ms since 1970")]
    is_draining: Annotated[bool, Tells("it gives bundles and takes none")]


class BundleLoadRow(NamedTuple):
    """A bundle that somebody owns or asked for.

    What its owner has not reported is null: it has just come there.
    """

    bundle: Annotated[str, Tells("tenant/namespace/0xLOW_0xHIGH")]
    owner: Annotated[str | None, Tells("broker id; null: nobody's")]
    msg_rate_in: Annotated[float | None, Tells("in its owner's report", "msg/s")]
    msg_rate_out: Annotated[float | None, Tells("in its owner's report", "msg/s")]
    bytes_in: Annotated[float | None, Tells("in its owner's report", "bytes/s")]
    bytes_out: Annotated[float | None, Tells("in its owner's report", "bytes/s")]
    topics: Annotated[int | None, Tells("in its owner's report")]
    producers: Annotated[int | None, Tells("in its owner's report")]
    consumers: Annotated[int | None, Tells("in its owner's report")]
    cache_bytes: Annotated[int | None, Tells("in its owner's report", "bytes")]
    usage_ratio: Annotated[
        float, Tells("part of a mean broker's capacity that it takes, 1.0 is all of it")
    ]
    short_bytes: Annotated[float, Tells("short average, in and out", "bytes/s")]
    long_msg_rate: Annotated[float, Tells("long average, in and out", "msg/s")]


class BoundariesRow(NamedTuple):
    """The ring of a namespace. It holds in its epoch until the next row of the namespace."""

    namespace: Annotated[str, Tells("tenant/namespace")]
    boundaries: Annotated[
        tuple[int, ...],
        Tells("from 0 to 4294967295, growing: N+1 of them for N bundles; empty: it is gone"),
    ]


class CapacityRow(NamedTuple):
    """What a broker has. It holds in its epoch until the next row of the broker.

    A limit of 0 is unknown.
    """

    broker: Annotated[str, Tells("whose capacity")]
    size_ratio: Annotated[float, Tells("capacity over that of the mean broker")]
    cpu_limit_percent: Annotated[float, Tells("processor time, 100 is one core", "%")]
    memory_limit_mib: Annotated[float, Tells("heap", "MiB")]
    direct_memory_limit_mib: Annotated[float, Tells("direct memory", "MiB")]
    bandwidth_in_limit_kbit_s: Annotated[float, Tells("incoming", "Kbit/s")]
    bandwidth_out_limit_kbit_s: Annotated[float, Tells("outgoing", "Kbit/s")]
    started_at_ms: Annotated[int, Tells("when it was started, 0: not told", "ms since 1970")]
    release: Annotated[str, Tells("version that it reports; may be empty")]
    takes_persistent: Annotated[bool, Tells("it is there for persistent topics")]
    takes_non_persistent: Annotated[bool, Tells("it is there for non-persistent topics")]
