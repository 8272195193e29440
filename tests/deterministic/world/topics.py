"""The traffic of a schedule: a few topics, evenly on the ring, whose load can be turned."""

from dataclasses import dataclass, field
from functools import cache

from broker_ctl.core.model.names import RING_HIGH, Namespace, Topic, ring_hash
from broker_ctl.simulation.model.curves import TopicRates
from broker_ctl.simulation.workload.workload import TopicLoad, Workload

NAMESPACE = Namespace("public", "default")
_TOPICS = 8


@dataclass(slots=True)
class Dial:
    """A `Curve` whose value a test sets."""

    traffic: TopicRates = field(default_factory=lambda: traffic_of(100.0))

    def at(self, _t_s: float, /) -> TopicRates:
        return self.traffic


def traffic_of(msg_rate: float) -> TopicRates:
    return TopicRates(msg_rate, msg_rate, msg_rate * 1024, msg_rate * 1024, 1, 1)


@cache
def topics() -> tuple[Topic, ...]:
    """One in each of equal slices of the ring."""
    width = (RING_HIGH + 1) // _TOPICS
    found: dict[int, str] = {}
    number = 0
    while len(found) < _TOPICS:
        name = f"persistent://{NAMESPACE}/t-{number}"
        found.setdefault(ring_hash(name) // width, name)
        number += 1
    return tuple(Topic.parse(found[index]) for index in sorted(found))


def new_workload() -> tuple[Workload, list[Dial]]:
    """Fresh dials, since they are turned."""
    dials = [Dial() for _ in topics()]
    loads = tuple(TopicLoad.of(str(t), d) for t, d in zip(topics(), dials, strict=True))
    return Workload("dials", loads), dials
