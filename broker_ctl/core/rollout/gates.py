"""What has to be true of a restarted broker before the next one may stop."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.cluster.view import BundleView
from broker_ctl.core.model.load import BundleStats

# Clients that reconnect bring most of the traffic back at once; the rest may take its time.
_TRAFFIC_RATIO: Final = 0.5
_MOST_NAMES: Final = 4
# A broker reports a change of this part of its traffic at once, and a smaller one much later: an
# average of less than this remains of bundles that have no clients.
_REPORTED_RATIO: Final = 0.1
_LEAST_MSG_RATE: Final = 1.0
_LEAST_BYTES_PER_S: Final = 1024.0


@dataclass(frozen=True, slots=True)
class Readings:
    """What the leader sees of a restarted broker and of the cluster.

    Attributes:
        run: of the broker's registration; None: it is not registered.
        run_before: of its registration before the restart.
        is_healthy: whether the driver found it ready at its own address, from outside.
        version: by its report; empty: unknown.
        has_reported: whether a report of the new run has arrived at the leader.
        stale: brokers of which no report is known since bundles with traffic were moved to them.
        lagging: partitions with a replica that is not in the ISR, though its broker was there when
            the batch began.
        msg_rate: msg/s of the cluster now.
        msg_rate_before: msg/s of the cluster when the batch began.
    """

    run: str | None
    run_before: str
    is_healthy: bool
    version: str
    has_reported: bool
    stale: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    msg_rate: float = 0.0
    msg_rate_before: float = 0.0


def awaits_report(unlisted: Iterable[BundleView], received_s: float, reported: BundleStats) -> bool:
    """Whether a report from before some moves hides traffic of its broker.

    A Java broker lists the bundles whose topics are open there, so one whose topics have no clients
    is in none of its reports, however new they are.

    Args:
        unlisted: the bundles that the broker owns and its newest report does not list.
        received_s: when that report came, on the clock of the view.
        reported: the traffic that it has.
    """
    msg_rate = throughput = 0.0
    for bundle in unlisted:
        moved_s = bundle.last_released_s
        if moved_s is not None and moved_s >= received_s:
            msg_rate += bundle.load.short.msg_rate
            throughput += bundle.load.short.throughput
    return msg_rate > max(_LEAST_MSG_RATE, _REPORTED_RATIO * reported.msg_rate) or throughput > max(
        _LEAST_BYTES_PER_S, _REPORTED_RATIO * reported.throughput
    )


def closed_gates(readings: Readings, version: str) -> tuple[str, ...]:
    """What a restarted broker is waited for, in words; empty: it may receive bundles.

    Args:
        readings: what is seen.
        version: which the broker has to run; empty: any.
    """
    if readings.run is None:
        return ("it is not registered",)
    if readings.run == readings.run_before:
        return ("the registered process is the one from before the restart",)
    closed = []
    if not readings.is_healthy:
        closed.append("the driver has not found it ready at its own address")
    if not readings.has_reported:
        closed.append("the leader has no load report of the new process")
    elif version and readings.version != version:
        closed.append(f"it runs version {readings.version or 'unknown'}, wanted is {version}")
    if readings.stale:
        closed.append(f"no report since the moves of {', '.join(readings.stale)}")
    if readings.lagging:
        more = len(readings.lagging) - _MOST_NAMES
        names = ", ".join(readings.lagging[:_MOST_NAMES])
        closed.append(f"not in sync: {names}" + (f" and {more} more" if more > 0 else ""))
    if readings.msg_rate < readings.msg_rate_before * _TRAFFIC_RATIO:
        closed.append(
            f"clients have not returned: {readings.msg_rate:.0f} msg/s, before "
            f"{readings.msg_rate_before:.0f}"
        )
    return tuple(closed)
