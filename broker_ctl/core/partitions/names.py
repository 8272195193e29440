"""Names of replicated topics and of their partitions (docs: kafka-paths).

A replicated topic is one step of a znode path, unlike the topics of bundles, whose complete names
have slashes.
"""

import re
from typing import Final, NamedTuple

from broker_ctl.errors import InvalidName

# Kafka's rule; 249 characters leave room for suffixes in file names.
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Ours are 32 hexadecimal digits, Kafka's are UUIDs in base64.
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}|[a-zA-Z0-9_-]{22}")


class TopicPartition(NamedTuple):
    """One partition of a replicated topic; a tuple, because a cluster has hundreds of thousands."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def validate_topic(name: str) -> str:
    """Return the name if it is valid for a replicated topic.

    Raises:
        InvalidName: the name is empty, too long, ``.`` or ``..``, or has an invalid character.
    """
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise InvalidName(
            f"{name[:260]!r}: a replicated topic is 1 to 249 of letters, digits and ._-"
        )
    return name


def validate_topic_id(text: str) -> str:
    """Return the text if it has the form of a topic id.

    Raises:
        InvalidName: it has another form.
    """
    if not _TOPIC_ID.fullmatch(text):
        raise InvalidName(
            f"{text[:40]!r}: a topic_id is 32 of 0-9a-f, or Kafka's 22 of letters, digits and _-"
        )
    return text
