"""The measure by which brokers are compared and bundles chosen: messages or bytes."""

from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.load_vector import throughput_text


class Measure(StrEnum):
    """Both count traffic in and out."""

    MSG_RATE = "message rate"
    THROUGHPUT = "throughput"

    def of_bundle(self, bundle_view: BundleView) -> float:
        """Short-term average, in msg/s or bytes/s."""
        short = bundle_view.load.short
        return short.msg_rate if self is Measure.MSG_RATE else short.throughput

    def of_broker(self, view: ClusterView, broker: BrokerView) -> float:
        """Sum over its bundles of what was last reported, once every move has arrived."""
        return fsum(self._latest(view.bundles[bundle]) for bundle in broker.owned)

    def text(self, value: float) -> str:
        """For people: ``1,200 msg/s``, ``12.5 MiB/s``."""
        return f"{value:,.0f} msg/s" if self is Measure.MSG_RATE else throughput_text(value)

    def _latest(self, bundle_view: BundleView) -> float:
        # A bundle that has just moved is in no report of its owner yet.
        if bundle_view.current is None:
            return self.of_bundle(bundle_view)
        current = bundle_view.current
        return current.msg_rate if self is Measure.MSG_RATE else current.throughput


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of load to move."""

    measure: Measure
    value: float

    @property
    def text(self) -> str:
        """For people."""
        return self.measure.text(self.value)
