"""How requests are gathered, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Bounds of each lane (docs: pulsar-batching).

    Attributes:
        is_adaptive: send at once while nothing is in flight, and on each reply; otherwise only on
            the delay or when a batch is full, as Pulsar does.
        max_delay_s: longest wait for a batch, while the bound on what is in flight allows it.
        max_operations, max_bytes: a batch that is as large as this goes, and is cut here.
        max_frame_bytes: jute.maxbuffer, which no request and no reply may reach.
        max_in_flight: batches of a lane without a reply. What is on the connection is ahead of a
            heartbeat, so there are few; with two or three of them a storm waits for the bound.
        max_waiting: requests of a lane that wait; one more is refused.
        operation_timeout_s: every request ends by then.
    """

    is_adaptive: bool = True
    max_delay_s: float = 0.005
    max_operations: int = 1000
    max_bytes: int = 128 * 1024
    max_frame_bytes: int = 0xFFFFF
    max_in_flight: int = 8
    max_waiting: int = 100_000
    operation_timeout_s: float = 30.0
