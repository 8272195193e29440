"""Each thing that must never be false, made false in a history of its own."""

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import LeadEpoch, Registration
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.partitions import ControllerRecord, encode_state
from broker_ctl.store.records.policies import LocalPolicies
from tests.chaos.judges.history import Change, Changed, Closed, Created, Deleted, Transaction
from tests.chaos.judges.replay import Replay, late_ends

NAMESPACE = Namespace("public", "default")
LEFT, RIGHT = Ring.even(NAMESPACE, 2).bundles
CHROOT = "/x"
EPOCH = paths.LOADBALANCE_ELECTION.epoch_path
NODE = paths.LOADBALANCE_ELECTION.node_path


def created(path: str, data: bytes = b"", *, is_ephemeral: bool = True) -> Created:
    return Created(CHROOT + path, data, is_ephemeral)


def owner(bundle: Bundle, broker: str, *, is_ephemeral: bool = True) -> Created:
    data = NamespaceEphemeralData(BrokerUrls(broker, f"http://{broker}")).encode()
    return created(paths.ownership(bundle), data, is_ephemeral=is_ephemeral)


def ring(*boundaries: int) -> bytes:
    return LocalPolicies(boundaries).encode()


def registered(broker: str) -> Created:
    urls = BrokerUrls(broker, f"http://{broker}")
    return created(paths.registration(broker), Registration("n", 4000, 0, urls).encode())


def epoch(number: int) -> Changed:
    return Changed(CHROOT + EPOCH, LeadEpoch(number, "a:1").encode(), number)


POLICIES = CHROOT + paths.local_policies(NAMESPACE)
TWO = Created(POLICIES, ring(0, 0x80000000, 0xFFFFFFFF), is_ephemeral=False)
EPOCH_0 = created(EPOCH, LeadEpoch(0, "").encode(), is_ephemeral=False)
MOVE = created(paths.move("m1"), is_ephemeral=False)

Said = tuple[int, Sequence[Change]]


def replayed(*said: Said) -> Replay:
    """A transaction for each session and its changes, a second apart."""
    zxids: Iterator[int] = count(1)
    replay = Replay(CHROOT)
    replay.run(
        Transaction(zxid, session, zxid * 1000, tuple(changes))
        for zxid, (session, changes) in zip(zxids, said, strict=False)
    )
    return replay


def test_a_life_without_fault() -> None:
    children = LEFT.cut((0x40000000,))
    replay = replayed(
        (1, [TWO, EPOCH_0]),
        (1, [created(NODE), epoch(1)]),
        (1, [owner(LEFT, "a:1")]),
        (1, [registered("a:1")]),
        (2, [owner(RIGHT, "b:1")]),
        (1, [MOVE]),
        (2, [Deleted(CHROOT + paths.ownership(RIGHT))]),
        (1, [owner(RIGHT, "a:1")]),
        (
            1,
            [
                Changed(POLICIES, ring(0, 0x40000000, 0x80000000, 0xFFFFFFFF), 1),
                *(owner(child, "a:1") for child in children),
                Deleted(CHROOT + paths.ownership(LEFT)),
            ],
        ),
        (1, [Closed()]),
        (3, [created(NODE), epoch(2)]),
        (3, [Closed()]),
    )
    assert replay.violations == []
    assert replay.ephemerals == []
    assert len(replay.reigns) == 5
    assert {reign.bundle for reign in replay.reigns if reign.had_grace} == {RIGHT, *children}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ([(1, [TWO]), (1, [owner(LEFT, "a:1", is_ephemeral=False)])], "I8"),
        (
            [
                (1, [TWO]),
                (1, [owner(LEFT, "a:1")]),
                (1, [Changed(POLICIES, ring(0, 9, 0x80000000, 0xFFFFFFFF), 1)]),
                (2, [owner(LEFT.cut((9,))[0], "b:1")]),
            ],
            "owners at once",
        ),
        ([(1, [TWO]), (1, [owner(LEFT.cut((9,))[0], "a:1")])], "not in the ring"),
        ([(1, [Created(POLICIES, ring(0, 9, 9, 0xFFFFFFFF), is_ephemeral=False)])], "no ring"),
        ([(1, [TWO]), (1, [registered("a:1")]), (2, [owner(LEFT, "a:1")])], "not registered in"),
        ([(1, [EPOCH_0]), (1, [created(NODE), epoch(1)]), (2, [MOVE])], "does not lead"),
        (
            [(1, [EPOCH_0]), (1, [created(NODE), epoch(1)]), (1, [epoch(1)])],
            "epoch 1 after 1",
        ),
        ([(1, [EPOCH_0]), (1, [epoch(1)])], "without a holder"),
    ],
)
def test_each_breach_is_found(said: Sequence[Said], complaint: str) -> None:
    (found,) = replayed(*said).violations
    assert complaint in found


def test_ephemeral_nodes_of_a_killed_process_must_go_in_time() -> None:
    replay = replayed((1, [registered("a:1")]), (2, []), (3, []), (1, [Closed()]))
    assert list(late_ends(replay, [("a:1", 1000, 1000)], limit_ms=3000)) == []
    assert len(list(late_ends(replay, [("a:1", 900, 900)], limit_ms=3000))) == 1


def test_a_session_is_counted_from_what_a_server_heard_last_of_it() -> None:
    replay = replayed((1, [registered("a:1")]), (2, []), (3, []), (1, [Closed()]))
    assert list(late_ends(replay, [("a:1", 900, 1000)], limit_ms=3000)) == []
    (found,) = late_ends(replay, [("a:1", 900, 950)], limit_ms=3000)
    assert "3100 ms, 50 of them" in found
    # What was sent after the end of the session did not change it.
    assert list(late_ends(replay, [("a:1", 900, 9000)], limit_ms=3000)) == []


def test_an_ephemeral_node_that_was_not_deleted_is_left() -> None:
    assert replayed((1, [registered("a:1")])).ephemerals == [paths.registration("a:1")]


def test_violations_of_replicated_partitions_are_found_with_the_rest() -> None:
    elected: Sequence[Change] = [
        created("/controller", ControllerRecord(1, 1, "d:8080", "http://d:8080").encode(0)),
        Changed(f"{CHROOT}/controller_epoch", b"1", 1),
    ]
    state = encode_state(LeaderAndIsr(1, 0, (1, 2), 1))
    path = "/brokers/topics/t/0/leaderAndISR"
    replay = replayed(
        (1, [created("/controller_epoch", b"0", is_ephemeral=False)]),
        (1, elected),
        (1, [created(path, state, is_ephemeral=False)]),
        (1, [Closed()]),
        (2, [Changed(CHROOT + path, encode_state(LeaderAndIsr(2, 1, (2,), 1)), 1)]),
    )
    (said,) = replay.violations
    assert said.startswith("I3: session 0x2, which does not control, elected: t-0")
    assert replay.partitions.states[TopicPartition("t", 0)].leader == 2
