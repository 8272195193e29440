"""A cluster that this kind of broker shares with others."""

from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.daemon.wiring.foundation import Foundation


def others_of(base: Foundation) -> ForeignBrokers | None:
    """Brokers that are no broker-ctl process, where they may be in the cluster."""
    return ForeignBrokers(base.metadata) if base.settings.broker.allow_mixed_cluster else None
