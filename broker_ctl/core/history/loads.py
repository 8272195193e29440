"""Rows of what a leader saw in one cycle: brokers, bundles, boundaries, capacities.

Rates have the names that they have in traces of bundles (`simulation/traces/trace_rows.py`).
"""

from typing import Annotated, NamedTuple

from broker_ctl.core.history.columns import Doc


class BrokerLoadRow(NamedTuple):
    """A live broker that has reported."""

    broker: Annotated[str, Doc("id of the broker")]
    usage_ratio: Annotated[float, Doc("largest weighted usage of its resources, 1.0 is full")]
    expected_usage_ratio: Annotated[
        float, Doc("usage_ratio, corrected for bundles acquired or released since the report")
    ]
    cpu_percent: Annotated[float, Doc("processor usage, in percent of its limit", "%")]
    memory_percent: Annotated[float, Doc("heap usage, in percent of its limit", "%")]
    direct_memory_percent: Annotated[
        float, Doc("direct memory usage, in percent of its limit", "%")
    ]
    bandwidth_in_percent: Annotated[float, Doc("incoming bandwidth, in percent of its limit", "%")]
    bandwidth_out_percent: Annotated[float, Doc("outgoing bandwidth, in percent of its limit", "%")]
    msg_rate_in: Annotated[float, Doc("incoming messages, sum over its bundles", "msg/s")]
    msg_rate_out: Annotated[float, Doc("outgoing messages, sum over its bundles", "msg/s")]
    bytes_in: Annotated[float, Doc("incoming bytes, sum over its bundles", "bytes/s")]
    bytes_out: Annotated[float, Doc("outgoing bytes, sum over its bundles", "bytes/s")]
    bundles: Annotated[int, Doc("number of bundles in its report")]
    topics: Annotated[int, Doc("topics, sum over its bundles")]
    producers: Annotated[int, Doc("producers, sum over its bundles")]
    consumers: Annotated[int, Doc("consumers, sum over its bundles")]
    unlisted_bundles: Annotated[
        int, Doc("number of its bundles that the report only contains as a sum")
    ]
    report_age_s: Annotated[
        float, Doc("time since the leader received its report, on the leader's clock", "s")
    ]
    reported_at_ms: Annotated[
        int, Doc("time of its report, on the broker's clock", "ms since 1970")
    ]
    is_draining: Annotated[
        bool, Doc("whether the broker is draining: it gives up bundles and receives none")
    ]


class BundleLoadRow(NamedTuple):
    """A bundle that has an owner or was looked up.

    Values that its owner has not reported are null: the bundle has just moved there.
    """

    bundle: Annotated[str, Doc("tenant/namespace/0xLOW_0xHIGH")]
    owner: Annotated[str | None, Doc("broker id; null: no owner")]
    msg_rate_in: Annotated[
        float | None, Doc("incoming messages, from the report of its owner", "msg/s")
    ]
    msg_rate_out: Annotated[
        float | None, Doc("outgoing messages, from the report of its owner", "msg/s")
    ]
    bytes_in: Annotated[
        float | None, Doc("incoming bytes, from the report of its owner", "bytes/s")
    ]
    bytes_out: Annotated[
        float | None, Doc("outgoing bytes, from the report of its owner", "bytes/s")
    ]
    topics: Annotated[int | None, Doc("topics, from the report of its owner")]
    producers: Annotated[int | None, Doc("producers, from the report of its owner")]
    consumers: Annotated[int | None, Doc("consumers, from the report of its owner")]
    cache_bytes: Annotated[
        int | None, Doc("size of its caches, from the report of its owner", "bytes")
    ]
    usage_ratio: Annotated[
        float, Doc("fraction of a mean broker's capacity that the bundle uses, 1.0 is all of it")
    ]
    short_bytes: Annotated[float, Doc("short-term average of bytes in and out", "bytes/s")]
    long_msg_rate: Annotated[float, Doc("long-term average of messages in and out", "msg/s")]


class BoundariesRow(NamedTuple):
    """The ring of a namespace, valid in its epoch until the next row of the namespace."""

    namespace: Annotated[str, Doc("tenant/namespace")]
    boundaries: Annotated[
        tuple[int, ...],
        Doc("ascending from 0 to 4294967295, N+1 values for N bundles; empty: namespace deleted"),
    ]


class CapacityRow(NamedTuple):
    """The capacity of a broker, valid in its epoch until the next row of the broker.

    A limit of 0 means that it is unknown.
    """

    broker: Annotated[str, Doc("id of the broker")]
    size_ratio: Annotated[float, Doc("capacity relative to the mean broker")]
    cpu_limit_percent: Annotated[float, Doc("limit of processor time, 100 is one core", "%")]
    memory_limit_mib: Annotated[float, Doc("limit of the heap", "MiB")]
    direct_memory_limit_mib: Annotated[float, Doc("limit of direct memory", "MiB")]
    bandwidth_in_limit_kbit_s: Annotated[float, Doc("limit of incoming bandwidth", "Kbit/s")]
    bandwidth_out_limit_kbit_s: Annotated[float, Doc("limit of outgoing bandwidth", "Kbit/s")]
    started_at_ms: Annotated[int, Doc("start time of the broker; 0: not reported", "ms since 1970")]
    release: Annotated[str, Doc("version that the broker reports; may be empty")]
    takes_persistent: Annotated[bool, Doc("whether the broker accepts persistent topics")]
    takes_non_persistent: Annotated[bool, Doc("whether the broker accepts non-persistent topics")]
