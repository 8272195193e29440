"""Rows of what a leader saw in one cycle: brokers, bundles, boundaries, capacities.

Rates have the names that they have in traces of bundles (`simulation/traces/trace_rows.py`).
"""

from typing import Annotated, NamedTuple

from broker_ctl.core.history.columns import Doc


class BrokerLoadRow(NamedTuple):
    """A live broker that has reported."""

    broker: Annotated[str, Doc("id of the broker")]
    usage_ratio: Annotated[float, Doc("weighted maximum of its resources, 1.0 is full")]
    expected_usage_ratio: Annotated[
        float, Doc("the same, corrected for bundles that came or went since its report")
    ]
    cpu_percent: Annotated[float, Doc("processor time of its limit", "%")]
    memory_percent: Annotated[float, Doc("heap of its limit", "%")]
    direct_memory_percent: Annotated[float, Doc("direct memory of its limit", "%")]
    bandwidth_in_percent: Annotated[float, Doc("incoming bandwidth of its limit", "%")]
    bandwidth_out_percent: Annotated[float, Doc("outgoing bandwidth of its limit", "%")]
    msg_rate_in: Annotated[float, Doc("of all its bundles", "msg/s")]
    msg_rate_out: Annotated[float, Doc("of all its bundles", "msg/s")]
    bytes_in: Annotated[float, Doc("of all its bundles", "bytes/s")]
    bytes_out: Annotated[float, Doc("of all its bundles", "bytes/s")]
    bundles: Annotated[int, Doc("number of bundles that it reported")]
    topics: Annotated[int, Doc("of all its bundles")]
    producers: Annotated[int, Doc("of all its bundles")]
    consumers: Annotated[int, Doc("of all its bundles")]
    unlisted_bundles: Annotated[int, Doc("number of bundles that its report only sums up")]
    report_age_s: Annotated[float, Doc("since its report came in, on the leader's clock", "s")]
    reported_at_ms: Annotated[int, Doc("time of its report, on its clock", "ms since 1970")]
    is_draining: Annotated[bool, Doc("it gives bundles up and receives none")]


class BundleLoadRow(NamedTuple):
    """A bundle that has an owner or was looked up.

    What its owner has not reported is null: it has just come there.
    """

    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    owner: Annotated[str | None, Doc("broker id; null: no owner")]
    msg_rate_in: Annotated[float | None, Doc("in its owner's report", "msg/s")]
    msg_rate_out: Annotated[float | None, Doc("in its owner's report", "msg/s")]
    bytes_in: Annotated[float | None, Doc("in its owner's report", "bytes/s")]
    bytes_out: Annotated[float | None, Doc("in its owner's report", "bytes/s")]
    topics: Annotated[int | None, Doc("in its owner's report")]
    producers: Annotated[int | None, Doc("in its owner's report")]
    consumers: Annotated[int | None, Doc("in its owner's report")]
    cache_bytes: Annotated[int | None, Doc("in its owner's report", "bytes")]
    usage_ratio: Annotated[
        float, Doc("part of a mean broker's capacity that it takes, 1.0 is all of it")
    ]
    short_bytes: Annotated[float, Doc("short average, in and out", "bytes/s")]
    long_msg_rate: Annotated[float, Doc("long average, in and out", "msg/s")]


class BoundariesRow(NamedTuple):
    """The ring of a namespace. It holds in its epoch until the next row of the namespace."""

    namespace: Annotated[str, Doc("tenant/namespace")]
    boundaries: Annotated[
        tuple[int, ...],
        Doc("from 0 to 4294967295, growing: N+1 of them for N bundles; empty: it is gone"),
    ]


class CapacityRow(NamedTuple):
    """What a broker has. It holds in its epoch until the next row of the broker.

    A limit of 0 is unknown.
    """

    broker: Annotated[str, Doc("id of the broker")]
    size_ratio: Annotated[float, Doc("capacity over that of the mean broker")]
    cpu_limit_percent: Annotated[float, Doc("processor time, 100 is one core", "%")]
    memory_limit_mib: Annotated[float, Doc("heap", "MiB")]
    direct_memory_limit_mib: Annotated[float, Doc("direct memory", "MiB")]
    bandwidth_in_limit_kbit_s: Annotated[float, Doc("incoming", "Kbit/s")]
    bandwidth_out_limit_kbit_s: Annotated[float, Doc("outgoing", "Kbit/s")]
    started_at_ms: Annotated[int, Doc("when it was started; 0: not reported", "ms since 1970")]
    release: Annotated[str, Doc("version that it reports; may be empty")]
    takes_persistent: Annotated[bool, Doc("it accepts persistent topics")]
    takes_non_persistent: Annotated[bool, Doc("it accepts non-persistent topics")]
