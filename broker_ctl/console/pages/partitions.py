"""Replicated partitions: what is wrong, and who leads how many."""

from collections.abc import Sequence
from dataclasses import dataclass

from broker_ctl.console.pages.frame import Row


@dataclass(frozen=True, slots=True)
class Partitions:
    """The page; the topics that have a problem come first."""

    row: Row
    topics: tuple[Row, ...]
    most_leaders: int


def partitions_page(row: Row, topics: Sequence[Row]) -> Partitions:
    """The page of the controller's overview and topics."""
    ordered = sorted(
        topics,
        key=lambda each: (
            -each["offline"],
            -each["under_min_isr"],
            -each["under_replicated"],
            each["topic"],
        ),
    )
    most = max([1, *(broker["leaders"] for broker in row["brokers"])])
    return Partitions(row, tuple(ordered), most)
