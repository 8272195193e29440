"""A load report, as the leader received it."""

from collections.abc import Mapping
from dataclasses import dataclass

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.store.records.simple import BrokerReport


@dataclass(frozen=True, slots=True)
class Report:
    """A broker's report, and when it was received.

    Its age counts from then by the leader's clock: the broker's clock may be off by any amount.
    The czxid is that of its node, which each run of a broker creates.
    """

    data: BrokerReport
    received_s: float
    lines: Mapping[Bundle, BundleStats]
    czxid: int
