"""Changes of a topic's configuration (Kafka: topic configs).

Only the node is written. Its change comes back as a notification like any other, upon which leaders
get an update, and elections that are allowed now are run.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from broker_ctl.controller.procedures.known_names import check_topic
from broker_ctl.controller.procedures.parents import make_parents
from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.replica_lists import fault_of_min_isr
from broker_ctl.core.partitions.values import MIN_ISR, RuleChanges, TopicRules
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    CorruptRecord,
    InvalidReplicas,
    MultiFailed,
    NodeExists,
    NoNode,
    OrderConflict,
    TopicMissing,
)
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Check, Create, Operation, SetData, Versioned
from broker_ctl.store.records.partitions import (
    decode_configuration,
    encode_configuration,
    rules_of_configuration,
)


class _Altered(NamedTuple):
    """Attributes: node: the current one, None if there is none. rules: with defaults filled in."""

    node: Versioned | None
    before: Mapping[str, str]
    after: Mapping[str, str]
    rules: TopicRules


class TopicConfiguration:
    """The configurations of topics in one term."""

    def __init__(self, controller: ControllerContext) -> None:
        self._store = controller.store
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._rules = controller.rules

    async def judge(self, topic: str, changes: RuleChanges) -> Reply:
        """What `alter` would do, and answer."""
        return self._reply(topic, (await self._altered(topic, changes)).rules)

    async def alter(self, topic: str, changes: RuleChanges) -> Reply:
        """Write them: ``{topic, before, after, under_min_isr}``."""
        path = partition_paths.topic_configuration(topic)
        while True:
            await make_parents(self._store, self._state_changer, path)
            node, before, after, rules = await self._altered(topic, changes)
            reply = self._reply(topic, rules)
            if before == after:
                return reply
            data = encode_configuration(after)
            write = Create(path, data) if node is None else SetData(path, data, node.stat.version)
            operations: list[Operation] = [Check(partition_paths.topic(topic)), write]
            try:
                await self._state_changer.write(operations)
            except Ambiguous:
                continue  # the next read shows whether it was written
            except MultiFailed as error:
                if error.index == 0:
                    raise TopicMissing(f"there is no topic {topic} any more") from None
                if not isinstance(error.cause, BadVersion | NodeExists | NoNode):
                    raise
                continue  # another client has written it
            return reply

    async def _altered(self, topic: str, changes: RuleChanges) -> _Altered:
        """The configuration before and after the change.

        Raises:
            TopicMissing, InvalidReplicas: as named.
            OrderConflict: the existing configuration cannot be read.
        """
        check_topic(self._context, topic)
        path = partition_paths.topic_configuration(topic)
        node = await self._store.get(path)
        try:
            before = {} if node is None else decode_configuration(node)
            kept = {key: text for key, text in before.items() if key not in changes}
            after = kept | {key: text for key, text in changes.items() if text is not None}
            rules = self._rules().with_defaults(rules_of_configuration(path, after))
        except CorruptRecord as error:
            raise OrderConflict(f"{error}: change that too, or reset it") from None
        if MIN_ISR in changes:
            self._check_min_isr(topic, rules.min_isr)
        return _Altered(node, before, after, rules)

    def _check_min_isr(self, topic: str, min_isr: int) -> None:
        for number, assignment in self._context.topics[topic].partitions.items():
            fault = fault_of_min_isr(min_isr, assignment.target)
            if fault is not None:
                raise InvalidReplicas(f"{TopicPartition(topic, number)} {fault}")

    def _reply(self, topic: str, rules: TopicRules) -> dict[str, Any]:
        context = self._context
        states = [context.states.get(each) for each in context.partitions_of(topic)]
        few = sum(1 for state in states if state is not None and len(state.isr) < rules.min_isr)
        before = _row(context.rules_of(topic))
        return {"topic": topic, "before": before, "after": _row(rules), "under_min_isr": few}


def _row(rules: TopicRules) -> dict[str, Any]:
    return {"min_isr": rules.min_isr, "unclean": bool(rules.is_unclean_allowed)}
