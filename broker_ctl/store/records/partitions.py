"""Payloads of replicated partitions (docs: kafka-paths)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from broker_ctl.codec import decode_object, encode
from broker_ctl.core.partitions.values import (
    MIN_ISR,
    UNCLEAN,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)
from broker_ctl.errors import CorruptRecord
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.fields import Fields, with_format_version

# As Kafka's: the same names of fields, and the version of the form that has them.
_STATE_VERSION: Final = 1
_TOPIC_VERSION: Final = 3
_RECOVERING: Final = 1
# In the form of Kafka's design v3, which has no epochs: {leader, ISR}.
_DESIGN_ISR: Final = "ISR"
_FLAGS: Final = {"true": True, "false": False}
# Kafka's keys in the configuration of brokers: what each sends to replicas that are added, and what
# it fetches for its own; bytes a second.
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
_MOST_RATE: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"\+?([0-9]{1,19})")
_MOST_NUMBER: Final = 2**31 - 1

# Payload of a request to delete a topic, which can be signed. Kafka's has none, and none is read.
DELETION_REQUEST: Final = encode(with_format_version({}))


def decode_state(node: Versioned) -> LeaderAndIsr:
    """A ``leaderAndISR`` node; by hand, since a controller reads hundreds of thousands.

    Raises:
        CorruptRecord: it does not fit.
    """
    try:
        row = decode_object(node.data)
        if _DESIGN_ISR in row:
            isr = tuple(sorted(map(int, row[_DESIGN_ISR])))
            return LeaderAndIsr(int(row["leader"]), 0, isr, 0, version=node.stat.version)
        return LeaderAndIsr(
            int(row["leader"]),
            int(row["leader_epoch"]),
            tuple(map(int, row["isr"])),
            int(row["controller_epoch"]),
            row.get("leader_recovery_state") == _RECOVERING,
            node.stat.version,
        )
    except (KeyError, TypeError, ValueError, CorruptRecord) as error:
        raise CorruptRecord(f"{node.path}: {error!r}") from error


def encode_state(state: LeaderAndIsr) -> bytes:
    """The payload."""
    row: dict[str, Any] = {
        "version": _STATE_VERSION,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": state.isr,
    }
    if state.is_recovering:
        row["leader_recovery_state"] = _RECOVERING
    return encode(row)


def decode_topic(node: Versioned) -> TopicAssignment:
    """A topic's node.

    Raises:
        CorruptRecord: it does not fit, or names no topic id.
    """
    topic = decode_topic_in_any_form(node)
    if not topic.topic_id:
        raise CorruptRecord(f"{node.path}: topic_id: the field is missing")
    return topic


def decode_topic_in_any_form(node: Versioned) -> TopicAssignment:
    """The same; without a topic id where the node has none, as Kafka wrote it before 2.8.

    The form of Kafka's design v3 has nothing but the replicas of each partition: ``{P: [ID]}``.

    Raises:
        CorruptRecord: it does not fit.
    """
    fields = Fields.of(node.path, node.data)
    is_design = all(name.isascii() and name.isdecimal() for name in fields.values)
    if not is_design and "partitions" not in fields.values:
        # Without partitions, the topic would lose those that another form may name.
        raise fields.corrupt("partitions", "the field is missing")
    partitions = fields if is_design else fields.child("partitions")
    adding, removing = fields.child("adding_replicas"), fields.child("removing_replicas")
    try:
        assignments = {
            int(number): Assignment(
                partitions.integers(number), adding.integers(number), removing.integers(number)
            )
            for number in partitions.values
        }
    except ValueError as error:
        raise fields.corrupt("partitions", str(error)) from error
    return TopicAssignment(fields.text("topic_id", ""), assignments, node.stat.version)


def encode_topic(topic: TopicAssignment) -> bytes:
    """The payload."""
    ordered = sorted(topic.partitions.items())
    return encode(
        {
            "version": _TOPIC_VERSION,
            "topic_id": topic.topic_id,
            "partitions": {str(number): of.replicas for number, of in ordered},
            "adding_replicas": {str(number): of.adding for number, of in ordered if of.adding},
            "removing_replicas": {
                str(number): of.removing for number, of in ordered if of.removing
            },
        }
    )


def decode_broker(node: Versioned) -> LiveBroker:
    """A registration under /brokers/ids.

    Raises:
        CorruptRecord: it does not fit, or the node's name is not a number.
    """
    fields = Fields.of(node.path, node.data)
    name = node.path.rpartition("/")[2]
    if not (name.isascii() and name.isdigit()):
        raise CorruptRecord(f"{node.path}: {name!r} is not a broker id")
    return LiveBroker(
        int(name),
        node.stat.czxid,
        fields.text("host"),
        fields.integer("port"),
        fields.broker_id("daemon") if fields.text("daemon", "") else "",
        fields.text("web_url", ""),
        fields.optional_text("rack") or "",
    )


def encode_broker(broker: LiveBroker, timestamp_ms: int) -> bytes:
    """The payload; Kafka's of version 1, its rack of version 3, and where the daemon is.

    Kafka's reader needs a port of JMX in each version, and takes -1 for none.
    """
    rack = {"rack": broker.rack} if broker.rack else {}
    return encode(
        {
            "version": 1,
            "host": broker.host,
            "port": broker.port,
            "jmx_port": -1,
            "timestamp": str(timestamp_ms),
            **rack,
            "daemon": broker.daemon,
            "web_url": broker.web_url,
        }
    )


@dataclass(frozen=True, slots=True)
class ControllerRecord:
    """Who controls partitions.

    Attributes:
        daemon: name of the daemon, ``host:port`` of its HTTP server.
    """

    broker_id: int
    controller_epoch: int
    daemon: str
    web_url: str

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        return cls(
            fields.integer("brokerid"),
            fields.integer("controller_epoch"),
            fields.broker_id("daemon") if fields.text("daemon", "") else "",
            fields.text("web_url", ""),
        )

    def encode(self, timestamp_ms: int) -> bytes:
        """The payload."""
        return encode(
            {
                "version": 1,
                "brokerid": self.broker_id,
                "controller_epoch": self.controller_epoch,
                "timestamp": str(timestamp_ms),
                "daemon": self.daemon,
                "web_url": self.web_url,
            }
        )


def decode_request(node: Versioned) -> tuple[int, ...]:
    """The replicas that a partition is to have.

    Raises:
        CorruptRecord: it does not fit.
    """
    return Fields.of(node.path, node.data).integers("replicas")


def encode_request(replicas: Iterable[int]) -> bytes:
    """The payload."""
    return encode({"version": 1, "replicas": list(replicas)})


def decode_failed(node: Versioned) -> frozenset[TopicPartition]:
    """The replicas that a broker cannot serve.

    Raises:
        CorruptRecord: it does not fit.
    """
    fields = Fields.of(node.path, node.data)
    try:
        found = [TopicPartition(str(topic), int(number)) for topic, number in _pairs(fields)]
    except (TypeError, ValueError) as error:
        raise fields.corrupt("replicas", str(error)) from error
    return frozenset(found)


def encode_failed(replicas: Iterable[TopicPartition]) -> bytes:
    """The payload."""
    return encode({"version": 1, "replicas": [list(each) for each in sorted(replicas)]})


def _pairs(fields: Fields) -> Any:
    pairs = fields.values.get("replicas", [])
    if not isinstance(pairs, list):
        raise fields.corrupt("replicas", "must be a list")
    return pairs


def decode_topic_rules(node: Versioned) -> TopicRules:
    """What a topic asks for itself; other keys are ignored.

    Values are texts, read as Kafka reads them: spaces around them do not count, nor does the case
    of true and false.

    Raises:
        CorruptRecord: it does not fit.
    """
    return _rules_in(Fields.of(node.path, node.data).child("config"))


def rules_of_configuration(path: str, config: Mapping[str, str]) -> TopicRules:
    """The same of a configuration that is to be written; as `decode_topic_rules`."""
    return _rules_in(Fields(path, config))


def _rules_in(config: Fields) -> TopicRules:
    return TopicRules(_unclean_in(config), _min_isr_in(config))


def _unclean_in(config: Fields) -> bool | None:
    text = config.optional_text(UNCLEAN)
    if text is None:
        return None
    is_allowed = _FLAGS.get(text.strip().lower())
    if is_allowed is None:
        raise config.corrupt(UNCLEAN, f"{text!r} is neither true nor false")
    return is_allowed


def _min_isr_in(config: Fields) -> int:
    text = config.optional_text(MIN_ISR)
    if text is None:
        return 0
    number = _NUMBER.fullmatch(text.strip())
    if number is None or not 0 < int(number[1]) <= _MOST_NUMBER:
        raise config.corrupt(MIN_ISR, f"{text!r} is not a number from 1 on")
    return int(number[1])


def decode_configuration(node: Versioned) -> Mapping[str, str]:
    """All that is configured of a topic, or of the brokers, by key.

    Raises:
        CorruptRecord: it does not fit.
    """
    config = Fields.of(node.path, node.data).child("config")
    return {key: config.text(key) for key in config.values}


def encode_topic_rules(rules: TopicRules, others: Mapping[str, str]) -> bytes:
    """The payload; ``others`` is what stood there besides."""
    config = {key: text for key, text in others.items() if key not in {UNCLEAN, MIN_ISR}}
    if rules.is_unclean_allowed is not None:
        config[UNCLEAN] = "true" if rules.is_unclean_allowed else "false"
    if rules.min_isr:
        config[MIN_ISR] = str(rules.min_isr)
    return encode_configuration(config)


def encode_configuration(config: Mapping[str, str]) -> bytes:
    """The payload, of all that is configured of a topic or of the brokers."""
    return encode({"version": 1, "config": config})


def decode_throttle(node: Versioned) -> int | None:
    """The throttle in the configuration of brokers, the smaller one of both; None: there is none.

    Raises:
        CorruptRecord: a rate is not a number from 1 on.
    """
    config = Fields.of(node.path, node.data).child("config")
    return min((_rate_in(config, key) for key in _RATES if key in config.values), default=None)


def with_throttle(config: Mapping[str, str], rate: int | None) -> dict[str, str]:
    """The configuration with that throttle; other keys stay."""
    others = {key: text for key, text in config.items() if key not in _RATES}
    return others if rate is None else others | dict.fromkeys(_RATES, str(rate))


def _rate_in(config: Fields, key: str) -> int:
    text = config.text(key)
    number = _NUMBER.fullmatch(text.strip())
    if number is None or not 0 < int(number[1]) <= _MOST_RATE:
        raise config.corrupt(key, f"{text!r} is not a number from 1 on")
    return int(number[1])
