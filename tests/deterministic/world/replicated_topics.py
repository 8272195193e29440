"""A replicated topic as an operator's own tool creates it: nodes, which the controller sees."""

from collections.abc import Mapping

from broker_ctl.core.partitions.values import Assignment, TopicAssignment, TopicRules
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Operation
from broker_ctl.store.records.partitions import encode_topic, encode_topic_rules
from tests.deterministic.judges.observed_ensembles import ObservedEnsemble

_TOPIC_ID = "0" * 32


def create_topic(
    ensemble: ObservedEnsemble,
    topic: str,
    replicas: Mapping[int, tuple[int, ...]],
    rules: TopicRules,
) -> None:
    """In one transaction, with the parents that are missing."""
    assigned = {number: Assignment(of) for number, of in replicas.items()}
    nodes = {
        paths.topic_configuration(topic): encode_topic_rules(rules, {}),
        paths.topic(topic): encode_topic(TopicAssignment(_TOPIC_ID, assigned)),
    }
    parents = {path.rsplit("/", up)[0]: None for path in nodes for up in (2, 1)}
    operations: list[Operation] = [
        Create(path) for path in parents if ensemble.tree.find(path) is None
    ]
    operations += [Create(path, data) for path, data in nodes.items()]
    ensemble.write_as_admin(operations)
