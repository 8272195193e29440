"""The admin of a controller in memory, over topics that exist only in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.partitions.reassigning import fault_of, fault_of_min_isr
from broker_ctl.core.partitions.values import (
    MIN_ISR,
    UNCLEAN,
    Assignment,
    RuleChanges,
    TopicPartition,
    TopicRules,
)
from broker_ctl.errors import (
    BrokerCtlError,
    Fenced,
    InvalidReplicas,
    OrderConflict,
    ReassignmentMissing,
    TopicExists,
    TopicMissing,
)

BROKERS = (1, 2, 3, 4)
EPOCH_OF_BROKER = 700
NEW_ID = "f" * 32
# A topic without an id, its partitions and their replicas; 9 is not the id of a broker.
NAMELESS = "old"
NAMELESS_REPLICAS = {0: (1, 2), 1: (2, 9)}


@dataclass
class Topic:
    rules: TopicRules
    partitions: dict[int, Assignment] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)


class MemoryControllerAdmin(ControllerOperations):
    """Notes what was written; ``refuse`` makes it say no. Reassignments end one at each look.

    With ``few_in_sync`` one replica of each partition is in sync.
    """

    def __init__(self) -> None:
        self.held: dict[str, Topic] = {}
        self.nameless = {NAMELESS: NAMELESS_REPLICAS}
        self.daemons = {number: f"b{number}:8080" for number in BROKERS}
        self.written: list[tuple[Any, ...]] = []
        self.refuse: BrokerCtlError | None = None
        self.recovering = False
        self.few_in_sync = False
        self.throttle: int | None = None
        self.has_throttle = True
        # Not empty: every partition is on too few of them.
        self.racks: dict[int, str] = {}
        self.asked: tuple[Any, ...] = ()

    def overview(self) -> Mapping[str, Any]:
        brokers = [
            {
                "broker": number,
                "address": f"b{number}:6650",
                "daemon": self.daemons[number],
                "epoch": EPOCH_OF_BROKER + number,
                "state": "live",
                "rack": None,
                "leaders": 0,
                "replicas": 0,
            }
            for number in BROKERS
        ]
        names = ("offline", "under_replicated", "under_min_isr", "not_preferred", "reassigning")
        counts = dict.fromkeys((*names, "rack_violations", "queue", "watches"), 0)
        partitions = sum(len(topic.partitions) for topic in self.held.values())
        head = {"broker": 1, "epoch": 5, "topics": len(self.held), "partitions": partitions}
        return {**head, **counts, "deleting": 0, "brokers": brokers}

    def topics(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": name,
                "topic_id": "0" * 32,
                "partitions": len(topic.partitions),
                "offline": sum(1 for leader in topic.leaders.values() if leader < 0),
                "under_replicated": 0,
                "under_min_isr": len(topic.partitions) if self.few_in_sync else 0,
                "rack_violations": len(topic.partitions) if self.racks else 0,
                "reassigning": sum(1 for of in topic.partitions.values() if of.is_reassigning),
                "is_deleting": False,
            }
            for name, topic in sorted(self.held.items())
        ]

    def describe(self, topic: str) -> Mapping[str, Any]:
        found = self._topic(topic)
        return {
            "topic": topic,
            "topic_id": "0" * 32,
            "min_isr": found.rules.min_isr,
            "unclean": found.rules.is_unclean_allowed,
            "is_deleting": False,
            "partitions": [
                {
                    "topic": topic,
                    "partition": number,
                    "replicas": of.replicas,
                    "racks": [self.racks.get(each) for each in of.replicas],
                    "is_rack_violation": bool(self.racks),
                    "leader": found.leaders[number],
                    "isr": sorted(of.replicas)[: 1 if self.few_in_sync else None],
                    "leader_epoch": 0,
                    "controller_epoch": 5,
                    "is_recovering": self.recovering,
                    "adding": of.adding,
                    "removing": of.removing,
                }
                for number, of in sorted(found.partitions.items())
            ],
        }

    def transitions(
        self, topic: str | None, partition: int | None, limit: int
    ) -> list[dict[str, Any]]:
        self.asked = (topic, partition, limit)
        if topic not in {None, "orders"}:
            return []
        row = {"controller_epoch": 5, "topic": "orders", "isr": [2, 3], "leader_epoch": 4}
        return [
            {**row, "at_ms": 60_000, "partition": 1, "before": 1, "leader": 2, "reason": "why"},
            {**row, "at_ms": 0, "partition": 0, "before": 1, "leader": -1, "reason": "why"},
        ]

    def explain(self, topic: str, partition: int) -> Mapping[str, Any]:
        self.asked = (topic, partition)
        if topic not in self.held:
            raise TopicMissing(f"there is no topic {topic}")
        replica = {"broker": 2, "status": "live", "is_in_sync": True, "is_leader": True}
        places = {"is_preferred": True, "is_adding": False, "is_removing": False}
        return {
            "topic": topic,
            "partition": partition,
            "reasons": ["broker 2 leads: it is the preferred replica"],
            "leader": 2,
            "leader_epoch": 4,
            "controller_epoch": 5,
            "isr": [2],
            "min_isr": 1,
            "unclean": False,
            "replicas": [{**replica, **places}],
            "changes": self.transitions(topic, partition, 1)[:1],
        }

    async def create_topic(
        self,
        topic: str,
        replicas: Mapping[int, tuple[int, ...]],
        rules: TopicRules,
        *,
        is_dry_run: bool,
    ) -> Mapping[str, Any]:
        if topic in self.held:
            raise TopicExists(f"there is a topic {topic} already")
        self._judge(topic, replicas, rules.min_isr)
        if not is_dry_run:
            self.written.append(("create", topic, dict(replicas), rules))
            self.held[topic] = Topic(rules)
            self._put(topic, replicas)
        return _made(topic, replicas)

    def spread(self, partitions: int, replication_factor: int) -> Mapping[int, tuple[int, ...]]:
        if replication_factor > len(BROKERS):
            raise InvalidReplicas(f"{replication_factor} replicas: brokers are {BROKERS}")
        count = len(BROKERS)
        return {
            number: tuple(BROKERS[(number + step) % count] for step in range(replication_factor))
            for number in range(partitions)
        }

    async def grow_topic(
        self,
        topic: str,
        partitions: int,
        replicas: Mapping[int, tuple[int, ...]],
        *,
        is_dry_run: bool,
    ) -> Mapping[str, Any]:
        known = self._topic(topic).partitions
        if partitions <= len(known):
            raise InvalidReplicas(f"{topic} has {len(known)} partitions already")
        spread = self.spread(partitions, len(known[0].replicas))
        new = {number: spread[number] for number in range(len(known), partitions)} | dict(replicas)
        self._judge(topic, new)
        if not is_dry_run:
            self.written.append(("grow", topic, dict(replicas)))
            self._put(topic, new)
        return _made(topic, new)

    async def alter_topic(
        self, topic: str, changes: RuleChanges, *, is_dry_run: bool
    ) -> Mapping[str, Any]:
        held = self._topic(topic)
        before, config = held.rules, dict(changes)
        after = before
        if MIN_ISR in config:
            after = replace(after, min_isr=int(config[MIN_ISR] or 1))
        if UNCLEAN in config:
            after = replace(after, is_unclean_allowed=config[UNCLEAN] == "true")
        replicas = {number: of.replicas for number, of in held.partitions.items()}
        self._judge(topic, replicas, after.min_isr)
        if not is_dry_run:
            self.written.append(("alter", topic, config))
            held.rules = after
        rows = [
            {"min_isr": rules.min_isr, "unclean": bool(rules.is_unclean_allowed)}
            for rules in (before, after)
        ]
        few = len(replicas) if self.few_in_sync and after.min_isr > 1 else 0
        return {"topic": topic, "before": rows[0], "after": rows[1], "under_min_isr": few}

    async def adopt_topic(
        self, topic: str, topic_id: str | None, *, is_dry_run: bool
    ) -> Mapping[str, Any]:
        self._check()
        if topic in self.held:
            raise OrderConflict(f"{topic} has the topic_id {'0' * 32} already")
        if topic not in self.nameless:
            raise TopicMissing(f"there is no topic {topic}")
        replicas, given = self.nameless[topic], topic_id or NEW_ID
        if not is_dry_run:
            self.written.append(("adopt", topic, given))
            del self.nameless[topic]
            self.held[topic] = Topic(TopicRules())
            self._put(topic, replicas)
        led = [
            {"state": "kafka", "leader": 2, "isr": [1, 2], "leader_epoch": 7},
            {"state": "none", "leader": -1, "isr": [], "leader_epoch": -1},
        ]
        rows = [{**row, **led[row["partition"]]} for row in _made(topic, replicas)["partitions"]]
        found = {"brokers": [1, 2, 9], "dead": [9], "partitions": rows}
        return {"topic": topic, "topic_id": given, **found}

    async def delete_topic(self, topic: str, *, is_dry_run: bool) -> Mapping[str, Any]:
        count = len(self._topic(topic).partitions)
        self._check()
        if not is_dry_run:
            self.written.append(("delete", topic))
            del self.held[topic]
        return {"topic": topic, "partitions": count}

    def plan_reassignment(self, topics: list[str], brokers: list[int]) -> Mapping[str, Any]:
        rows = []
        for topic in topics:
            for number, of in sorted(self._topic(topic).partitions.items()):
                count = min(len(of.replicas), len(brokers))
                target = tuple(brokers[(number + step) % len(brokers)] for step in range(count))
                self._judge(topic, {number: target})
                rows.append(_moved(TopicPartition(topic, number), target, of.replicas))
        return {
            "version": 1,
            "partitions": [row for row in rows if row["replicas"] != row["before"]],
        }

    async def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        throttle: int | None = None,
        *,
        is_dry_run: bool,
    ) -> Mapping[str, Any]:
        rows = []
        for partition, target in targets.items():
            self._judge(partition.topic, {partition.partition: target})
            rows.append(_moved(partition, target, self._partition(partition).origin))
        if not is_dry_run:
            self.written.append(("reassign", dict(targets)))
            self.throttle = throttle or self.throttle
            for partition, target in targets.items():
                self._begin(partition, target)
        limit = {"throttle_bytes_per_s": throttle} if throttle and self.has_throttle else {}
        return {"partitions": rows, **limit}

    async def throttle_reassignments(
        self, rate: int | None, *, is_dry_run: bool
    ) -> Mapping[str, Any]:
        moving = len(self._moving())
        if not moving:
            raise ReassignmentMissing("no reassignment is in progress")
        before, after = ({"throttle_bytes_per_s": each} for each in (self.throttle, rate))
        if not is_dry_run:
            self.written.append(("throttle", rate))
            self.throttle = rate
        return {"before": before, "after": after, "reassigning": moving}

    async def cancel_reassignment(
        self, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Mapping[str, Any]:
        chosen = partitions or self._moving()
        for partition in chosen:
            if not self._partition(partition).is_reassigning:
                raise ReassignmentMissing(f"{partition} is not being reassigned")
        rows = [
            _moved(partition, self._partition(partition).origin, self._partition(partition).target)
            for partition in chosen
        ]
        if not is_dry_run:
            self.written.append(("cancel", chosen))
            for partition in chosen:
                origin = self._partition(partition).origin
                self._topic(partition.topic).partitions[partition.partition] = Assignment(origin)
        return {"partitions": rows}

    def reassignments(self) -> list[dict[str, Any]]:
        moving = self._moving()
        rows = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": self._partition(partition).target,
                "adding": self._partition(partition).adding,
                "removing": self._partition(partition).removing,
                "isr": sorted(self._partition(partition).origin),
                "missing": self._partition(partition).adding,
                "throttle_bytes_per_s": self.throttle,
            }
            for partition in moving
        ]
        for partition in moving[:1]:
            target = self._partition(partition).target
            self._topic(partition.topic).partitions[partition.partition] = Assignment(target)
        return rows

    async def elect(
        self, kind: str, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Mapping[str, Any]:
        self._check()
        if kind == "unclean" and not partitions:
            raise InvalidReplicas("an unclean election wants its partitions named")
        chosen = partitions or [
            TopicPartition(name, number)
            for name, topic in self.held.items()
            for number, of in topic.partitions.items()
            if topic.leaders[number] != of.replicas[0]
        ]
        rows = []
        for topic, number in chosen:
            preferred = self._partition(TopicPartition(topic, number)).replicas[0]
            before = self.held[topic].leaders[number]
            reason = "" if before != preferred else "the preferred replica leads"
            rows.append(
                {
                    "topic": topic,
                    "partition": number,
                    "before": before,
                    "leader": preferred,
                    "reason": reason,
                }
            )
            if not is_dry_run:
                self.held[topic].leaders[number] = preferred
        if not is_dry_run:
            self.written.append(("elect", kind, chosen))
        return {"kind": kind, "partitions": rows}

    async def shut_down(
        self, broker_id: int, broker_epoch: int, *, is_forced: bool
    ) -> Mapping[str, Any]:
        if broker_epoch != EPOCH_OF_BROKER + broker_id:
            raise Fenced(f"broker {broker_id} has another epoch than {broker_epoch}")
        self.written.append(("shut down", broker_id, is_forced))
        return {"broker": broker_id, "is_done": True, "led": [], "reason": ""}

    def _check(self) -> None:
        if self.refuse is not None:
            raise self.refuse

    def _topic(self, name: str) -> Topic:
        if name not in self.held:
            raise TopicMissing(f"there is no topic {name}")
        return self.held[name]

    def _partition(self, partition: TopicPartition) -> Assignment:
        found = self._topic(partition.topic).partitions
        if partition.partition not in found:
            raise TopicMissing(f"there is no partition {partition}")
        return found[partition.partition]

    def _judge(self, topic: str, replicas: Mapping[int, tuple[int, ...]], min_isr: int = 0) -> None:
        self._check()
        for number, brokers in replicas.items():
            fault = fault_of(brokers, BROKERS) or fault_of_min_isr(min_isr, brokers)
            if fault is not None:
                raise InvalidReplicas(f"{TopicPartition(topic, number)} {fault}")

    def _put(self, topic: str, replicas: Mapping[int, tuple[int, ...]]) -> None:
        for number, brokers in replicas.items():
            self.held[topic].partitions[number] = Assignment(brokers)
            self.held[topic].leaders[number] = brokers[0]

    def _begin(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        topic, origin = self.held[partition.topic], self._partition(partition).origin
        union = tuple(dict.fromkeys(target + origin))
        topic.partitions[partition.partition] = Assignment(
            union,
            tuple(broker for broker in union if broker not in origin),
            tuple(broker for broker in union if broker not in target),
        )

    def _moving(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, topic in sorted(self.held.items())
            for number, of in sorted(topic.partitions.items())
            if of.is_reassigning
        ]


def _made(topic: str, replicas: Mapping[int, tuple[int, ...]]) -> dict[str, Any]:
    rows = [
        {"topic": topic, "partition": number, "replicas": brokers}
        for number, brokers in sorted(replicas.items())
    ]
    return {"topic": topic, "partitions": rows}


def _moved(
    partition: TopicPartition, target: tuple[int, ...], before: tuple[int, ...]
) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": target,
        "before": before,
    }
