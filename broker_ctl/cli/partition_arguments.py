"""Arguments that name partitions, replicas and rates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import click

from broker_ctl.cli.runtime.output import print_table

PARTITIONS: Final = "/control/v1/partitions"
TOPICS: Final = f"{PARTITIONS}/topics"
REASSIGNMENTS: Final = f"{PARTITIONS}/reassignments"
# Names of topics may be long, and a daemon accepts bodies of up to 1 MiB.
AT_ONCE: Final = 2_000
# Bytes a second for replicas that are added, in the API.
THROTTLE: Final = "throttle_bytes_per_s"
_BYTES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE: Final = re.compile(rf"([0-9]{{1,19}}) ?({'|'.join(_BYTES)})?(?:/s)?")
_MOST_RATE: Final = 2**63 - 1
# Rows of a preview; --output json has all.
_MOST_SHOWN: Final = 20


class PartitionName(click.ParamType[dict[str, Any]]):
    """``TOPIC-PARTITION``, as the tables print it."""

    name = "partition"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        """The partition, as requests have it."""
        named = partition_in(str(value))
        if named is None:
            self.fail(f"{value!r} is not a TOPIC-PARTITION such as orders-7", param, ctx)
        return named


class ReplicaList(click.ParamType[tuple[str, list[int]]]):
    """``PARTITION:BROKER,BROKER``: the replicas of one partition, the preferred one first."""

    name = "replicas"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, list[int]]:
        """The number of the partition, and broker ids."""
        number, _, brokers = str(value).partition(":")
        try:
            if int(number) < 0:
                raise ValueError
            return str(int(number)), ids_in(brokers)
        except ValueError:
            self.fail(f"{value!r} is not a PARTITION:BROKER,BROKER such as 0:1,2,3", param, ctx)


class Rate(click.ParamType[int]):
    """Bytes a second, as ``50MiB`` or ``52428800``."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes a second."""
        found = _RATE.fullmatch(str(value).strip())
        rate = 0 if found is None else int(found[1]) * _BYTES[found[2] or "B"]
        if not 0 < rate <= _MOST_RATE:
            self.fail(f"{value!r} is not a number of bytes a second such as 50MiB", param, ctx)
        return rate


class BrokerIdList(click.ParamType[list[int]]):
    """``BROKER,BROKER``."""

    name = "brokers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        """Broker ids."""
        try:
            return ids_in(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a list of broker ids such as 1,2,3", param, ctx)


def partition_in(text: str) -> dict[str, Any] | None:
    """Parse ``TOPIC-PARTITION``; None: it is something else."""
    topic, _, number = text.rpartition("-")
    if not topic or not number.isascii() or not number.isdecimal():
        return None
    return {"topic": topic, "partition": int(number)}


def ids_in(text: str) -> list[int]:
    """Parse comma-separated broker ids.

    Raises:
        ValueError: a part is not a broker id.
    """
    ids = [int(part) for part in text.split(",")]
    if min(ids) < 0:
        raise ValueError(text)
    return ids


def lists_of(replicas: Iterable[tuple[str, list[int]]]) -> dict[str, list[int]]:
    """Replica lists by partition.

    Raises:
        UsageError: a partition is given twice.
    """
    lists: dict[str, list[int]] = {}
    for number, brokers in replicas:
        if number in lists:
            raise click.UsageError(f"--replicas gives partition {number} twice")
        lists[number] = brokers
    return lists


def topic_path(topic: str) -> str:
    """The path of a topic in the API.

    Raises:
        InvalidName: a replicated topic cannot have this name.
    """
    from broker_ctl.core.partitions.values import validate_topic

    return f"{TOPICS}/{quote(validate_topic(topic), safe='')}"


def partition_name(row: Mapping[str, Any]) -> str:
    """``TOPIC-PARTITION``."""
    return f"{row['topic']}-{row['partition']}"


def ids_text(ids: Sequence[int]) -> str:
    """Comma-separated broker ids."""
    return ",".join(map(str, ids))


def preview(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print the first rows, and the number of the others."""
    print_table("", columns, rows[:_MOST_SHOWN])
    if len(rows) > _MOST_SHOWN:
        click.echo(f"and {len(rows) - _MOST_SHOWN} more; --output json has all")


def preview_moves(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the current and the new replicas of partitions."""
    preview(
        ("partition", "current replicas", "new replicas"),
        [(partition_name(row), ids_text(row["before"]), ids_text(row["replicas"])) for row in rows],
    )


def count_text(count: int, noun: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
