"""Payloads of election nodes: Pulsar's for the balancer, Kafka's for the controller."""

from typing import Protocol

from broker_ctl.clock import Clock
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.broker_ctl import LeadEpoch
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.records.partitions import ControllerRecord


class ElectionRecords(Protocol):
    """The payloads of one election, as one candidate writes them."""

    def holder(self, epoch: int) -> bytes:
        """Payload of the leader's node."""
        ...

    def epoch(self, epoch: int) -> bytes:
        """Payload of the node whose version is the epoch."""
        ...

    def decode(self, node: Versioned) -> LeaderBroker:
        """The leader that a node names.

        Raises:
            CorruptRecord: the payload does not decode.
        """
        ...


class LeaderRecords:
    """Pulsar's payloads, byte for byte, with broker-ctl's epoch node."""

    def __init__(self, own: LeaderBroker) -> None:
        self._own = own

    def holder(self, epoch: int) -> bytes:  # noqa: ARG002
        """See `ElectionRecords`."""
        return self._own.encode()

    def epoch(self, epoch: int) -> bytes:
        """See `ElectionRecords`."""
        return LeadEpoch(epoch, self._own.broker_id).encode()

    def decode(self, node: Versioned) -> LeaderBroker:
        """See `ElectionRecords`."""
        return LeaderBroker.decode(node.path, node.data)


class ControllerRecords:
    """The controller's payloads: its broker id, and the epoch in decimals (docs: kafka-paths).

    Args:
        broker_id: the ``brokerId`` setting.
    """

    def __init__(self, own: LeaderBroker, broker_id: int, clock: Clock) -> None:
        self._own = own
        self._broker_id = broker_id
        self._clock = clock

    def holder(self, epoch: int) -> bytes:
        """See `ElectionRecords`."""
        own = self._own
        record = ControllerRecord(self._broker_id, epoch, own.broker_id, own.service_url)
        return record.encode(self._clock.wall_ms())

    def epoch(self, epoch: int) -> bytes:
        """See `ElectionRecords`."""
        return str(epoch).encode()

    def decode(self, node: Versioned) -> LeaderBroker:
        """See `ElectionRecords`."""
        record = ControllerRecord.decode(node.path, node.data)
        return LeaderBroker(record.daemon, record.web_url)
