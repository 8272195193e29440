"""The configuration of a topic, as Kafka's tools write it and Kafka reads it."""

import pytest

from broker_ctl.codec import encode
from broker_ctl.core.partitions.values import TopicRules
from broker_ctl.errors import CorruptRecord
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.records.partitions import decode_topic_rules, encode_topic_rules

UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


def node(config: dict[str, object]) -> Versioned:
    stat = Stat(*(0 for _ in Stat._fields))
    return Versioned("/config/topics/t", encode({"version": 1, "config": config}), stat)


@pytest.mark.parametrize(
    ("config", "rules"),
    [
        ({}, TopicRules(None, 0)),
        ({"retention.ms": "1"}, TopicRules(None, 0)),
        ({UNCLEAN: "true"}, TopicRules(is_unclean_allowed=True)),
        ({UNCLEAN: "TRUE "}, TopicRules(is_unclean_allowed=True)),
        ({UNCLEAN: "false"}, TopicRules(is_unclean_allowed=False)),
        ({UNCLEAN: "\tFalse"}, TopicRules(is_unclean_allowed=False)),
        ({UNCLEAN: None, MIN_ISR: None}, TopicRules(None, 0)),
        ({MIN_ISR: "2"}, TopicRules(None, 2)),
        ({MIN_ISR: " +02 "}, TopicRules(None, 2)),
    ],
)
def test_values_are_read_as_kafka_reads_them(config: dict[str, object], rules: TopicRules) -> None:
    assert decode_topic_rules(node(config)) == rules


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((UNCLEAN, value) for value in ("yes", "", "1", True)),
        *((MIN_ISR, value) for value in ("0", "-1", "two", "", "1.0", "2147483648", "٢", 2)),
    ],
)
def test_what_kafka_refuses_is_corrupt_and_named(key: str, value: object) -> None:
    with pytest.raises(CorruptRecord, match=key):
        decode_topic_rules(node({key: value}))


@pytest.mark.parametrize("rules", [TopicRules(), TopicRules(True, 3), TopicRules(False, 1)])  # noqa: FBT003
def test_what_is_written_is_read_alike_and_the_rest_is_kept(rules: TopicRules) -> None:
    data = encode_topic_rules(rules, {"retention.ms": "1", UNCLEAN: "true"})
    written = Versioned("/config/topics/t", data, node({}).stat)
    assert decode_topic_rules(written) == rules
    assert b'"retention.ms":"1"' in data
