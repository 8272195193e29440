"""The table of verdicts, row by row (docs: ambiguous-writes)."""

import pytest

from broker_ctl.store.interface import (
    ANY_VERSION,
    CONTAINER_OWNER,
    Check,
    Create,
    CreateMode,
    Delete,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper.resolve import (
    WriteSender,
    WriteVerdict,
    is_numbered,
    judge,
    results,
)

APPLIED, NOT_APPLIED, UNKNOWN = WriteVerdict.APPLIED, WriteVerdict.NOT_APPLIED, WriteVerdict.UNKNOWN
MINE, OTHERS, PERSISTENT = 0x77, 0x88, 0
BEFORE = 100
SENDER = WriteSender(MINE, BEFORE)
OLD, NEW, NEWER = 50, 101, 150


def node(
    czxid: int,
    mzxid: int = 0,
    *,
    version: int = 0,
    owner: int = PERSISTENT,
    data: bytes = b"mine",
    path: str = "/a",
) -> Versioned:
    stat = Stat(czxid, mzxid or czxid, 0, 0, version, 0, 0, owner, len(data), 0, czxid)
    return Versioned(path, data, stat)


EPHEMERAL = Create("/a", b"mine", CreateMode.EPHEMERAL)
CREATE = Create("/a", b"mine")
CONTAINER = Create("/a", b"", CreateMode.CONTAINER)
NUMBERED = Create("/a", b"", CreateMode.SEQUENTIAL)
SET_3 = SetData("/a", b"mine", 3)
SET_ANY = SetData("/a", b"mine", ANY_VERSION)
DELETE_3 = Delete("/a", 3)
DELETE_ANY = Delete("/a", ANY_VERSION)

ROWS: list[tuple[str, Operation, Versioned | None, WriteVerdict]] = [
    ("ephemeral: it is mine", EPHEMERAL, node(NEW, owner=MINE), APPLIED),
    ("ephemeral: absent", EPHEMERAL, None, NOT_APPLIED),
    ("ephemeral: another session's", EPHEMERAL, node(NEW, owner=OTHERS), NOT_APPLIED),
    ("ephemeral: persistent", EPHEMERAL, node(NEW), NOT_APPLIED),
    ("ephemeral: mine, from before", EPHEMERAL, node(OLD, owner=MINE), NOT_APPLIED),
    (
        "ephemeral: mine, of another writer here",
        EPHEMERAL,
        node(NEW, owner=MINE, data=b"other"),
        NOT_APPLIED,
    ),
    (
        "ephemeral: written over",
        EPHEMERAL,
        node(NEW, NEWER, version=1, owner=MINE, data=b"other"),
        UNKNOWN,
    ),
    ("create: as it was sent", CREATE, node(NEW), APPLIED),
    ("create: absent", CREATE, None, NOT_APPLIED),
    ("create: there before", CREATE, node(OLD), NOT_APPLIED),
    ("create: of the zxid seen last", CREATE, node(BEFORE), NOT_APPLIED),
    ("create: another session's", CREATE, node(NEW, data=b"other"), NOT_APPLIED),
    ("create: ephemeral", CREATE, node(NEW, owner=OTHERS), NOT_APPLIED),
    ("create: written over", CREATE, node(NEW, NEWER, version=1), UNKNOWN),
    ("container: made", CONTAINER, node(NEW, owner=CONTAINER_OWNER, data=b""), APPLIED),
    ("container: there before", CONTAINER, node(OLD, data=b""), NOT_APPLIED),
    ("sequential: its name is lost", NUMBERED, None, UNKNOWN),
    ("set: the next version, my data", SET_3, node(OLD, NEW, version=4), APPLIED),
    ("set: the version it was", SET_3, node(OLD, version=3, data=b"old"), NOT_APPLIED),
    (
        "set: another writer took the version",
        SET_3,
        node(OLD, NEW, version=4, data=b"other"),
        NOT_APPLIED,
    ),
    ("set: my data, but from before", SET_3, node(OLD, OLD + 1, version=4), NOT_APPLIED),
    ("set: others came up to the version", SET_3, node(OLD, NEW, version=3), NOT_APPLIED),
    ("set: written over since", SET_3, node(OLD, NEWER, version=5), UNKNOWN),
    ("set: long past, before", SET_3, node(OLD, OLD + 9, version=9), NOT_APPLIED),
    ("set: absent", SET_3, None, NOT_APPLIED),
    ("set: created again", SET_3, node(NEW, NEWER, version=4), UNKNOWN),
    ("set any: newer, my data", SET_ANY, node(OLD, NEW, version=9), APPLIED),
    ("set any: unchanged", SET_ANY, node(OLD, OLD + 1, version=9, data=b"old"), NOT_APPLIED),
    ("set any: unchanged, same data", SET_ANY, node(OLD, OLD + 1, version=9), NOT_APPLIED),
    ("set any: written over", SET_ANY, node(OLD, NEWER, version=9, data=b"other"), UNKNOWN),
    ("set any: absent", SET_ANY, None, NOT_APPLIED),
    ("set any: created again", SET_ANY, node(NEW), UNKNOWN),
    ("delete: absent", DELETE_3, None, APPLIED),
    ("delete: as it was", DELETE_3, node(OLD, version=3), NOT_APPLIED),
    ("delete: another version", DELETE_3, node(OLD, NEW, version=4), NOT_APPLIED),
    ("delete: a new node of the name", DELETE_3, node(NEW), UNKNOWN),
    ("delete any: absent", DELETE_ANY, None, APPLIED),
    ("delete any: still there", DELETE_ANY, node(OLD, owner=MINE), NOT_APPLIED),
    ("delete any: another session's now", DELETE_ANY, node(NEW, owner=OTHERS), UNKNOWN),
    ("check: may be asked again", Check("/a", 3), node(OLD, version=3), NOT_APPLIED),
]


@pytest.mark.parametrize(
    ("operation", "found", "verdict"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_the_outcome_of_a_lost_write_is_judged_by_its_node(
    operation: Operation,
    found: Versioned | None,
    verdict: WriteVerdict,
) -> None:
    assert judge([operation], {"/a": found}, SENDER) is verdict


def test_of_a_sender_in_an_earlier_session_no_ephemeral_counts_as_its_own() -> None:
    now = node(NEW, owner=OTHERS)
    assert judge([EPHEMERAL], {"/a": now}, SENDER) is NOT_APPLIED
    assert judge([EPHEMERAL], {"/a": now}, WriteSender(OTHERS, BEFORE)) is APPLIED


LEADER = Create("/leader", b"mine", CreateMode.EPHEMERAL)
EPOCH = SetData("/epoch", b"mine", 3)
MARK = SetData("/mark", b"mine", ANY_VERSION)
GONE = Delete("/gone", 0)
FENCE = Check("/fence", 1)

LEADER_MINE = node(NEW, owner=MINE, path="/leader")
EPOCH_MINE = node(OLD, NEW, version=4, path="/epoch")
EPOCH_OLD = node(OLD, version=3, data=b"old", path="/epoch")
EPOCH_LATER = node(OLD, NEWER, version=5, path="/epoch")
MARK_MINE = node(OLD, NEW, version=8, path="/mark")
MARK_OTHER = node(OLD, NEWER, version=9, data=b"other", path="/mark")
GONE_STILL = node(OLD, path="/gone")
GONE_AGAIN = node(NEW, path="/gone")

TRANSACTIONS: list[tuple[str, list[Operation], list[Versioned | None], WriteVerdict]] = [
    ("all as written", [EPOCH, LEADER], [EPOCH_MINE, LEADER_MINE], APPLIED),
    ("nothing touched", [EPOCH, LEADER], [EPOCH_OLD, None], NOT_APPLIED),
    (
        "another candidate won",
        [EPOCH, LEADER],
        [
            node(OLD, NEW, version=4, data=b"other", path="/epoch"),
            node(NEW, owner=OTHERS, path="/leader"),
        ],
        NOT_APPLIED,
    ),
    ("the leader was deleted since", [EPOCH, LEADER], [EPOCH_MINE, None], APPLIED),
    ("the epoch was bumped since", [EPOCH, LEADER], [EPOCH_LATER, LEADER_MINE], APPLIED),
    ("both: no trace left", [EPOCH, LEADER], [EPOCH_LATER, None], UNKNOWN),
    ("a check and a create, absent", [FENCE, LEADER], [None, None], NOT_APPLIED),
    ("a check and a create, mine", [FENCE, LEADER], [None, LEADER_MINE], APPLIED),
    (
        "a check and a create, others'",
        [FENCE, LEADER],
        [None, node(NEW, owner=OTHERS, path="/leader")],
        NOT_APPLIED,
    ),
    ("checks alone", [FENCE, FENCE], [None, None], NOT_APPLIED),
    ("a check and a delete, gone", [FENCE, GONE], [None, None], APPLIED),
    ("a check and a delete, still there", [FENCE, GONE], [None, GONE_STILL], NOT_APPLIED),
    ("a check and a delete, there again", [FENCE, GONE], [None, GONE_AGAIN], UNKNOWN),
    ("two deletes, one still there", [GONE, DELETE_ANY], [None, node(OLD)], NOT_APPLIED),
    # Another client may have deleted it: the rest of the transaction is not proven by that.
    ("gone, and nothing else to see", [LEADER, GONE], [None, None], UNKNOWN),
    ("gone, and the rest is mine", [LEADER, GONE], [LEADER_MINE, None], APPLIED),
    ("still there: nothing was done", [MARK, GONE], [MARK_OTHER, GONE_STILL], NOT_APPLIED),
    # Equal data of another client does not outweigh a node that was not touched.
    ("still there, though data are equal", [MARK, GONE], [MARK_MINE, GONE_STILL], NOT_APPLIED),
    ("the marker decides", [NUMBERED, MARK], [None, MARK_MINE], APPLIED),
    ("the marker was written over", [NUMBERED, MARK], [None, MARK_OTHER], UNKNOWN),
    ("nothing that could decide", [NUMBERED, NUMBERED], [None, None], UNKNOWN),
    ("a set on a node that is absent", [EPOCH, MARK], [None, MARK_MINE], APPLIED),
    ("two sets, one absent, one doubtful", [EPOCH, MARK], [None, MARK_OTHER], UNKNOWN),
]


@pytest.mark.parametrize(
    ("operations", "found", "verdict"),
    [row[1:] for row in TRANSACTIONS],
    ids=[row[0] for row in TRANSACTIONS],
)
def test_the_outcome_of_a_lost_transaction_is_judged_by_its_nodes(
    operations: list[Operation],
    found: list[Versioned | None],
    verdict: WriteVerdict,
) -> None:
    nodes = {op.path: now for op, now in zip(operations, found, strict=True)}
    assert judge(operations, nodes, SENDER) is verdict


def test_of_two_operations_on_one_path_the_last_one_decides() -> None:
    replaced: list[Operation] = [Delete("/a", 3), EPHEMERAL, MARK]
    nodes = {"/a": node(NEW, owner=MINE), "/mark": MARK_OTHER}
    assert judge(replaced, nodes, SENDER) is APPLIED
    assert judge(replaced, nodes | {"/a": node(OLD, version=3)}, SENDER) is NOT_APPLIED
    # A node that is made and deleted is absent whether the transaction was applied or not.
    passing: list[Operation] = [MARK, CREATE, DELETE_ANY]
    assert judge(passing, {"/mark": MARK_MINE, "/a": None}, SENDER) is APPLIED
    assert judge(passing, {"/mark": MARK_OTHER, "/a": None}, SENDER) is UNKNOWN


def test_the_results_of_a_lost_transaction_are_those_of_its_own_zxid() -> None:
    nodes = {"/epoch": EPOCH_MINE, "/leader": LEADER_MINE, "/gone": None}
    operations: list[Operation] = [FENCE, EPOCH, LEADER, GONE]
    assert results(operations, nodes) == [None, EPOCH_MINE.stat, LEADER_MINE, None]
    # Written over since: the version of the other write must not pass for ours.
    assert results(operations, nodes | {"/epoch": EPOCH_LATER}) == [
        None,
        UNKNOWN,
        LEADER_MINE,
        None,
    ]
    assert results(operations, nodes | {"/leader": None}) == [
        None,
        EPOCH_MINE.stat,
        UNKNOWN,
        None,
    ]
    assert results([NUMBERED, EPOCH], nodes) == [UNKNOWN, EPOCH_MINE.stat]
    assert results([EPOCH, SetData("/epoch", b"mine", 4)], nodes) == [
        UNKNOWN,
        UNKNOWN,
    ]
    assert results([GONE, FENCE], {"/gone": GONE_AGAIN}) == [None, None]
    assert results([EPOCH], {"/epoch": EPOCH_LATER}) == [UNKNOWN]


def test_only_sequential_creates_are_numbered() -> None:
    assert is_numbered(NUMBERED)
    assert is_numbered(Create("/n-", b"", CreateMode.EPHEMERAL_SEQUENTIAL))
    assert not is_numbered(EPHEMERAL)
    assert not is_numbered(SET_3)
