"""Paths of replicated partitions: those of Kafka's design, and later ones (docs: kafka-paths).

Nodes and who writes them; payloads are JSON unless noted:

    /controller                         the controller; ephemeral
        {version, brokerid, controller_epoch, timestamp, daemon, web_url}
    /controller_epoch                   the controller
        the epoch in decimals, which is the version of the node too
    /brokers/ids/ID                     the broker; ephemeral; its czxid is the broker epoch
        {version, host, port, timestamp, daemon, web_url}
    /brokers/topics/T                   operator and controller
        {version, topic_id, partitions: {P: [ID]}, adding_replicas: {P: [ID]}, removing_replicas}
    /brokers/topics/T/P                 the controller: nothing
    /brokers/topics/T/P/leaderAndISR    the controller; the leader, of the ISR alone
        {version, leader, leader_epoch, controller_epoch, isr, leader_recovery_state: 1 or absent}
    /brokers/topics/T/partitions/P/state    Kafka's controller: the same, where Kafka has it; read
                                            when a topic is adopted, and deleted with the topic
    /brokers/partitions_reassigned/T/P  operator: a request, which goes in the transaction that
        {version, replicas}             writes the final assignment
    /brokers/state/ID/I                 the controller: an instruction, which goes when applied
        (see core/partitions/instructions.py)
    /brokers/failed/ID                  the broker; ephemeral: replicas that it cannot serve
        {version, replicas: [[T, P]]}
    /config/topics/T                    operator; as Kafka's
        {version, config: {KEY: TEXT}}
    /config/brokers/<default>           the controller: the throttle of replicas that are added;
        {version, config: {KEY: TEXT}}  other keys are Kafka's
    /admin/delete_topics/T              operator: the request to delete, nothing; it goes last

T is checked (`core/partitions/names.py`) before it becomes a step of a path, P and ID are numbers.
"""

from typing import Final

from broker_ctl.core.partitions.names import TopicPartition, validate_topic
from broker_ctl.errors import InvalidName

BROKERS: Final = "/brokers"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
REASSIGNED: Final = "/brokers/partitions_reassigned"
STATE: Final = "/brokers/state"
FAILED: Final = "/brokers/failed"
TOPIC_CONFIGURATION: Final = "/config/topics"
BROKER_CONFIGURATION: Final = "/config/brokers"
# What applies to each broker, by Kafka's name for it.
BROKER_DEFAULTS: Final = f"{BROKER_CONFIGURATION}/<default>"
DELETIONS: Final = "/admin/delete_topics"
_LEADER_AND_ISR: Final = "leaderAndISR"
_KAFKA_PARTITIONS: Final = "partitions"
_KAFKA_STATE: Final = "state"
_DIGITS: Final = 20


def broker(broker_id: int) -> str:
    """The ephemeral registration of a broker."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """The assignment of all partitions of a topic."""
    return f"{TOPICS}/{validate_topic(name)}"


def partition(of: TopicPartition) -> str:
    """Parent of a partition's state."""
    return f"{TOPICS}/{of.topic}/{of.partition}"


def leader_and_isr(of: TopicPartition) -> str:
    """The state of a partition."""
    return f"{TOPICS}/{of.topic}/{of.partition}/{_LEADER_AND_ISR}"


def state_below(partition_path: str) -> str:
    """The state of the partition whose node this is."""
    return f"{partition_path}/{_LEADER_AND_ISR}"


def kafka_partitions(name: str) -> str:
    """Parent of the partitions of a topic in Kafka's own layout."""
    return f"{topic(name)}/{_KAFKA_PARTITIONS}"


def kafka_state(of: TopicPartition) -> str:
    """The state of a partition in Kafka's own layout."""
    return kafka_state_below(f"{TOPICS}/{of.topic}/{_KAFKA_PARTITIONS}/{of.partition}")


def kafka_state_below(partition_path: str) -> str:
    """As `state_below`, in Kafka's own layout."""
    return f"{partition_path}/{_KAFKA_STATE}"


def reassigned_topic(name: str) -> str:
    """Parent of the requests to reassign partitions of a topic."""
    return f"{REASSIGNED}/{validate_topic(name)}"


def reassigned(of: TopicPartition) -> str:
    """The request to reassign a partition."""
    return f"{REASSIGNED}/{of.topic}/{of.partition}"


def queue(broker_id: int) -> str:
    """Parent of the instructions that wait for a broker (ZKQueue)."""
    return f"{STATE}/{broker_id}"


def queued(broker_id: int, number: int) -> str:
    """One instruction; names sort as their numbers do."""
    return f"{STATE}/{broker_id}/{number:0{_DIGITS}d}"


def broker_of_queued(path: str) -> int | None:
    """The broker for which an instruction waits at ``path``, None for any other path."""
    steps = path.split("/")
    if len(steps) != 5 or not path.startswith(STATE + "/") or not steps[3].isdecimal():
        return None
    return int(steps[3])


def failed(broker_id: int) -> str:
    """Replicas that a broker reports as failed."""
    return f"{FAILED}/{broker_id}"


def topic_configuration(name: str) -> str:
    """What a topic asks for itself."""
    return f"{TOPIC_CONFIGURATION}/{validate_topic(name)}"


def deletion(name: str) -> str:
    """The request to delete a topic."""
    return f"{DELETIONS}/{validate_topic(name)}"


def partition_of_state(path: str) -> TopicPartition | None:
    """The partition of a ``leaderAndISR`` node, None for any other path."""
    steps = path.split("/")
    if len(steps) != 6 or steps[5] != _LEADER_AND_ISR or not path.startswith(TOPICS + "/"):
        return None
    return _partition(steps[3], steps[4])


def partition_of_request(path: str) -> TopicPartition | None:
    """The partition of a request to reassign, None for any other path."""
    steps = path.split("/")
    if len(steps) != 5 or not path.startswith(REASSIGNED + "/"):
        return None
    return _partition(steps[3], steps[4])


def topic_of(path: str) -> str | None:
    """The topic of an assignment node, None for any other path."""
    name = path.removeprefix(f"{TOPICS}/")
    if name == path or "/" in name:
        return None
    try:
        return validate_topic(name)
    except InvalidName:
        return None


def topic_of_kafka_state(path: str) -> str | None:
    """The topic of a partition's state in Kafka's own layout, None for any other path."""
    above = path.removesuffix(f"/{_KAFKA_STATE}")
    partitions, _, number = above.rpartition("/")
    if above == path or not number.isdecimal():
        return None
    parent = partitions.removesuffix(f"/{_KAFKA_PARTITIONS}")
    return None if parent == partitions else topic_of(parent)


def _partition(name: str, number: str) -> TopicPartition | None:
    try:
        checked = validate_topic(name)
    except InvalidName:
        return None
    # "07" would be a second path of partition 7.
    if not number.isascii() or not number.isdigit() or (number[0] == "0" and number != "0"):
        return None
    return TopicPartition(checked, int(number))
