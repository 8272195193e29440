"""Rules of batching, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Bounds of each lane (docs: pulsar-batching).

    Attributes:
        is_adaptive: send at once while nothing is in flight, and on each reply; otherwise only on
            the delay or when a batch is full, as Pulsar does.
        max_delay_s: longest wait for a batch, unless max_in_flight holds it back.
        max_operations, max_bytes: largest batch; a full one is sent at once.
        max_frame_bytes: jute.maxbuffer, which no request and no reply may reach.
        max_in_flight: batches of a lane without a reply. A heartbeat queues behind whatever is on
            the connection, so the bound is low; at two or three a burst of requests waits for it.
        follows_round_trip: bulk requests are also bound by a window that follows the round trip.
        max_waiting: requests of a lane that may wait; one more is refused.
        operation_timeout_s: every request ends by then.
    """

    is_adaptive: bool = True
    max_delay_s: float = 0.005
    max_operations: int = 1000
    max_bytes: int = 128 * 1024
    max_frame_bytes: int = 0xFFFFF
    max_in_flight: int = 8
    follows_round_trip: bool = True
    max_waiting: int = 100_000
    operation_timeout_s: float = 30.0
