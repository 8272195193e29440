"""What the daemon hands to its history, beside what the leader and the managers do."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker_ctl.coordination.election import Leadership
from broker_ctl.core.history.columns import RowKind, RowT
from broker_ctl.core.history.rows import ElectionName, LeaderEpochRow, PartitionTransitionRow
from broker_ctl.core.partitions.values import PartitionStage, TopicPartition, Transition
from broker_ctl.daemon.wiring.history import PartitionHistory, policy_version, recording
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths


@dataclass
class Rows:
    seen: list[tuple[str, int, int | None, Any]] = field(default_factory=list)

    def record_rows(
        self,
        kind: RowKind[RowT],
        rows: Sequence[RowT],
        *,
        epoch: int = 0,
        cycle: int = 0,
        at_ms: int | None = None,
    ) -> None:
        del cycle
        self.seen += [(kind.name, epoch, at_ms, row) for row in rows]


def leadership() -> Leadership:
    return Leadership(paths.CONTROLLER_ELECTION, 7, lambda: None)


def begin_and_end(detail: str) -> list[tuple[str, int, None, LeaderEpochRow]]:
    rows = (
        LeaderEpochRow("controller", is_begin=True),
        LeaderEpochRow("controller", is_begin=False, detail=detail),
    )
    return [("leader_epochs", 7, None, row) for row in rows]


async def test_a_leading_that_is_given_up_has_a_begin_and_an_end() -> None:
    rows, is_leading = Rows(), asyncio.Event()

    async def lead(_: Leadership) -> None:
        is_leading.set()
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            recording(rows, ElectionName.CONTROLLER, lead)(leadership()), name="lead"
        )
        await is_leading.wait()
        assert rows.seen == begin_and_end("")[:1]
        task.cancel()
    assert rows.seen == begin_and_end("resigned, or the session has ended")
    assert task.cancelled()


async def test_a_leading_that_another_ends_says_so() -> None:
    rows = Rows()

    async def lead(_: Leadership) -> None:
        return

    await recording(rows, ElectionName.CONTROLLER, lead)(leadership())
    assert rows.seen == begin_and_end("another leader was met, or the authority was lost")


async def test_a_leading_that_fails_says_so() -> None:
    rows = Rows()

    async def lead(_: Leadership) -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        await recording(rows, ElectionName.CONTROLLER, lead)(leadership())
    assert rows.seen == begin_and_end("it failed")


def test_transitions_of_partitions_become_rows() -> None:
    rows = Rows()
    partition = TopicPartition("orders", 3)
    stages = PartitionStage.ONLINE, PartitionStage.OFFLINE
    transition = Transition(partition, *stages, -1, 5, (1, 2), "broker change")
    PartitionHistory(rows).record_transitions(7, 99, [transition])
    row = PartitionTransitionRow(
        "orders", 3, "online", "offline", -1, 5, (1, 2), reason="broker change"
    )
    assert rows.seen == [("partition_transitions", 7, 99, row)]


def test_a_policy_is_what_steers_the_leader_and_nothing_else() -> None:
    settings = Settings()
    row = policy_version(settings)
    texts = json.loads(row.settings)
    assert texts["loadBalancerLoadSheddingStrategy"] == row.shedding == "balance"
    assert texts["dryRun"] == "false"
    assert not {"tokenSecretKeyFile", "loadHistoryDirectory", "webServicePort"} & texts.keys()
    other = policy_version(settings.with_values({"dryRun": True}, {}))
    assert other.policy_hash != row.policy_hash
    assert policy_version(settings.with_values({"webServicePort": 1}, {})) == row
    off = settings.with_values({"loadBalancerSheddingEnabled": False}, {})
    assert policy_version(off).shedding == ""
