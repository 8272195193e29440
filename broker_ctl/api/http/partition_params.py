"""Parameters of requests about replicated partitions: replica lists, partitions, rules.

A body is checked for its form and its bounds here; whether brokers and partitions exist is checked
by the controller.
"""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.partitions.values import (
    MIN_ISR,
    UNCLEAN,
    RuleChanges,
    TopicPartition,
    TopicRules,
    validate_topic,
    validate_topic_id,
)

# Bytes a second for replicas that reassignments add.
THROTTLE: Final = "throttle_bytes_per_s"
# Of one topic in one request: a million partitions need a hundred requests.
MOST_PARTITIONS: Final = 10_000
# Of one partition; no cluster keeps as many brokers in sync.
_MOST_REPLICAS: Final = 100
# Of broker ids and of partition numbers.
_MOST_NUMBER: Final = 2**31 - 1
# Of bytes a second.
_MOST_RATE: Final = 2**63 - 1
UNCLEAN_ELECTION: Final = "unclean"
_ELECTIONS: Final = ("preferred", UNCLEAN_ELECTION)


def topic_in_path(request: web.Request) -> str:
    """The replicated topic in the path.

    Raises:
        InvalidName: not a valid name of a replicated topic.
    """
    return validate_topic(request.match_info["topic"])


def partition_in_query(request: web.Request) -> tuple[str | None, int | None]:
    """``topic`` and ``partition``, each None where it is absent; no partition without a topic.

    Raises:
        ApiError: 400, something else.
        InvalidName: not a valid name of a replicated topic.
    """
    topic, number = request.query.get("topic"), request.query.get("partition")
    if number is not None and topic is None:
        raise ApiError(400, "partition needs a topic")
    return (
        None if topic is None else validate_topic(topic),
        None if number is None else _partition(number, "partition"),
    )


def number_in(body: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """A whole number of a body, ``least`` where it is absent.

    Raises:
        ApiError: 400, something else.
    """
    return _number(body.get(name, least), name, least, most)


def flag_in(body: Mapping[str, Any], name: str) -> bool:
    """A field of a body that is true or false; false where it is absent.

    Raises:
        ApiError: 400, something else.
    """
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise ApiError(400, f"{name} is true or false")
    return value


def rules_in(body: Mapping[str, Any]) -> TopicRules:
    """``min_isr`` and ``unclean``; absent or null: the topic has no rule of its own.

    Raises:
        ApiError: 400, not a number or not a flag.
    """
    is_allowed = None if body.get("unclean") is None else flag_in(body, "unclean")
    return TopicRules(is_allowed, number_in(body, "min_isr", 0, _MOST_REPLICAS))


def changes_in(body: Mapping[str, Any]) -> RuleChanges:
    """The changes of ``min_isr`` and ``unclean``.

    Raises:
        ApiError: 400, something else, or none.
    """
    changes: dict[str, str | None] = {}
    if "unclean" in body:
        is_given = body["unclean"] is not None
        changes[UNCLEAN] = str(flag_in(body, "unclean")).lower() if is_given else None
    if "min_isr" in body:
        is_given = body["min_isr"] is not None
        changes[MIN_ISR] = str(number_in(body, "min_isr", 1, _MOST_REPLICAS)) if is_given else None
    if not changes:
        raise ApiError(400, "min_isr or unclean is required")
    return changes


def topic_id_in(body: Mapping[str, Any]) -> str | None:
    """``topic_id``; None where it is absent or null.

    Raises:
        ApiError: 400, not a text.
        InvalidName: not a valid topic id.
    """
    value = body.get("topic_id")
    if value is None:
        return None
    if not isinstance(value, str):
        raise ApiError(400, "topic_id is a text")
    return validate_topic_id(value)


def replicas_in(body: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """``replicas``, lists of broker ids by partition number; empty where absent.

    Raises:
        ApiError: 400, something else, or too many.
    """
    lists = body.get("replicas", {})
    if not isinstance(lists, dict):
        raise ApiError(400, 'replicas is an object: {"PARTITION": [BROKER, ...], ...}')
    if len(lists) > MOST_PARTITIONS:
        raise ApiError(400, f"a request names at most {MOST_PARTITIONS} partitions")
    return {_partition(text): _replicas(ids) for text, ids in lists.items()}


def partitions_in(body: Mapping[str, Any]) -> list[TopicPartition]:
    """``partitions``, each an object with topic and partition; empty where absent.

    Raises:
        ApiError: 400, something else, too many, or one twice.
        InvalidName: not a valid name of a replicated topic.
    """
    return list(_rows_in(body))


def targets_in(body: Mapping[str, Any]) -> dict[TopicPartition, tuple[int, ...]]:
    """``partitions``, each with its target replicas, as in Kafka's reassignment file.

    Raises:
        ApiError: 400, something else, none, too many, or one twice.
        InvalidName: not a valid name of a replicated topic.
    """
    targets = {of: _replicas(row.get("replicas")) for of, row in _rows_in(body).items()}
    if not targets:
        raise ApiError(400, "partitions to move are required")
    return targets


def throttle_in(body: Mapping[str, Any]) -> int | None:
    """``throttle_bytes_per_s``; None where it is absent or null.

    Raises:
        ApiError: 400, something else.
    """
    value = body.get(THROTTLE)
    return None if value is None else _number(value, THROTTLE, 1, _MOST_RATE)


def names_in(body: Mapping[str, Any]) -> list[str]:
    """``topics``, by name.

    Raises:
        ApiError: 400, something else, or none.
        InvalidName: one is not a valid name of a replicated topic.
    """
    names = body.get("topics")
    if not isinstance(names, list) or not names:
        raise ApiError(400, "topics is a list of names")
    return [_topic(name) for name in names]


def brokers_in(body: Mapping[str, Any]) -> list[int]:
    """``brokers``, by id.

    Raises:
        ApiError: 400, something else, or none.
    """
    return list(_replicas(body.get("brokers"), "brokers", _MOST_NUMBER))


def election_in(body: Mapping[str, Any]) -> str:
    """``kind`` of an election.

    Raises:
        ApiError: 400, something else.
    """
    kind = body.get("kind")
    if kind not in _ELECTIONS:
        raise ApiError(400, f"kind is one of {', '.join(_ELECTIONS)}")
    return str(kind)


def _rows_in(body: Mapping[str, Any]) -> dict[TopicPartition, Mapping[str, Any]]:
    rows = body.get("partitions", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ApiError(400, 'partitions is a list: [{"topic": NAME, "partition": N}, ...]')
    if len(rows) > MOST_PARTITIONS:
        raise ApiError(400, f"a request names at most {MOST_PARTITIONS} partitions")
    found: dict[TopicPartition, Mapping[str, Any]] = {}
    for row in rows:
        number = _number(row.get("partition"), "partition", 0, _MOST_NUMBER)
        partition = TopicPartition(_topic(row.get("topic")), number)
        if partition in found:
            raise ApiError(400, f"{partition} is named twice")
        found[partition] = row
    return found


def _topic(name: object) -> str:
    if not isinstance(name, str):
        raise ApiError(400, "topic is the name of a replicated topic")
    return validate_topic(name)


def _partition(text: str, name: str = "replicas") -> int:
    # "07" would be a second name of partition 7.
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_NUMBER))
    if not is_number or str(int(text)) != text:
        raise ApiError(400, f"{name}: {text[:20]!r} is not a partition number")
    return _number(int(text), "partition", 0, _MOST_NUMBER)


def _replicas(ids: object, name: str = "replicas", most: int = _MOST_REPLICAS) -> tuple[int, ...]:
    if not isinstance(ids, list) or not ids or len(ids) > most:
        raise ApiError(400, f"{name} must be a list of 1 to {most} broker ids")
    return tuple(_number(broker_id, "broker id", 0, _MOST_NUMBER) for broker_id in ids)


def _number(value: object, name: str, least: int, most: int) -> int:
    # A bool is an int in Python only.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ApiError(400, f"{name} is a number from {least} to {most}")
    return value
