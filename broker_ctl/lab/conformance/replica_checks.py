"""Promises of the replica API (`replica_wire`), as far as calls can verify them.

Only producers and consumers can verify that logs agree, and which records are committed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker_ctl.core.partitions.instructions import (
    STALE_EPOCH,
    WRONG_TOPIC_ID,
    ReplicaError,
    ReplicaState,
    ReplicaStop,
)
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.dataplane.webhook import replica_wire
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, IsrAnswer, IsrProposal
from broker_ctl.dataplane.webhook.wire import CALL, INSTANCE_ID
from broker_ctl.lab.conformance.call_checks import first_call
from broker_ctl.lab.conformance.subject import TENANT, BrokerClient, unmet

_TOPIC: Final = f"{TENANT}-replicas"
_FIRST, _SECOND = TopicPartition(_TOPIC, 0), TopicPartition(_TOPIC, 1)
_TOPIC_ID: Final = "b" * 32
_OTHER_ID: Final = "c" * 32
# Another broker id than that of the process under test; without an address, so nothing is fetched
# from it.
_ELSEWHERE: Final = 0x7FFFFFFF
_SHORT_S: Final = 0.001
_LONG_S: Final = 86_400.0
# Leaders may check for lagging followers at intervals only.
_PROPOSED_S: Final = 5.0
_MALFORMED: Final[Sequence[tuple[str, Any]]] = (
    (replica_wire.BECOME_LEADER, {}),
    (replica_wire.BECOME_LEADER, {"topics": {}, "partitions": [[_TOPIC, 0]]}),
    (replica_wire.BECOME_FOLLOWER, {"topics": {}, "partitions": []}),
    (replica_wire.STOP, {"stops": [[_TOPIC]]}),
    (replica_wire.ISR_ANSWERS, {"answers": [[_TOPIC, 0]]}),
)


async def keeps_replicas(subject: BrokerClient) -> bool:
    """Whether the broker process keeps replicas."""
    return (await subject.call("GET", replica_wire.REPLICAS)).status != 404


async def creates_and_lists(subject: BrokerClient) -> None:
    """An instruction creates a replica; its repetition changes nothing."""
    for _ in range(2):
        await _lead(subject, 3, [_FIRST])
        await _follow(subject, 4, [_SECOND])
        await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 3), _SECOND: (_TOPIC_ID, 4)})


async def stale_epoch(subject: BrokerClient) -> None:
    """A smaller leader epoch is refused, and nothing changes; a larger one is taken."""
    await _lead(subject, 5, [_FIRST, _SECOND])
    stale = [ReplicaError(_FIRST, STALE_EPOCH)]
    await _lead(subject, 4, [_FIRST], stale)
    await _follow(subject, 4, [_FIRST], stale)
    await _stop(subject, ReplicaStop(_FIRST, _TOPIC_ID, 4, is_deleted=False), stale)
    await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 5), _SECOND: (_TOPIC_ID, 5)})
    await _follow(subject, 6, [_FIRST])
    await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 6), _SECOND: (_TOPIC_ID, 5)})


async def wrong_topic_id(subject: BrokerClient) -> None:
    """A topic of the same name with another topic id does not take over the replica."""
    await _lead(subject, 1, [_FIRST])
    wrong = [ReplicaError(_FIRST, WRONG_TOPIC_ID)]
    await _lead(subject, 9, [_FIRST], wrong, _OTHER_ID)
    await _follow(subject, 9, [_FIRST], wrong, _OTHER_ID)
    await _stop(subject, ReplicaStop(_FIRST, _OTHER_ID, 9, is_deleted=True), wrong)
    await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 1)})


async def stop(subject: BrokerClient) -> None:
    """A stopped replica is still held; a deleted one is gone, whatever its epoch; both repeat."""
    await _lead(subject, 2, [_FIRST])
    for _ in range(2):
        await _stop(subject, ReplicaStop(_FIRST, _TOPIC_ID, 2, is_deleted=False))
        await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 2)})
    for _ in range(2):
        await _stop(subject, ReplicaStop(_FIRST, _TOPIC_ID, 0, is_deleted=True))
        await _expect_replicas(subject, {})
    await _lead(subject, 0, [_FIRST], topic_id=_OTHER_ID)
    await _expect_replicas(subject, {_FIRST: (_OTHER_ID, 0)})


async def late_deletion(subject: BrokerClient) -> None:
    """A late deletion does not delete a replica that was created again meanwhile."""
    first = await first_call(subject)
    await _lead(subject, 2, [_FIRST])
    (gone,) = replica_wire.encode_stops([ReplicaStop(_FIRST, _TOPIC_ID, 2, is_deleted=True)])
    await _call_numbered(subject, replica_wire.STOP, gone, first + 1)
    await _expect_replicas(subject, {})
    (follow,) = replica_wire.encode_instructions(
        _instruction(_ELSEWHERE, 3, [_FIRST], _TOPIC_ID), {}
    )
    await _call_numbered(subject, replica_wire.BECOME_FOLLOWER, follow, first + 2)
    await _call_numbered(subject, replica_wire.STOP, gone, first, 409)
    await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 3)})
    await _call_numbered(subject, replica_wire.STOP, gone, first + 3)
    await _expect_replicas(subject, {})


async def other_instance(subject: BrokerClient) -> None:
    """A call that is meant for another instance does not make this one lead."""
    (lead,) = replica_wire.encode_instructions(_instruction(1, 1, [_FIRST], _TOPIC_ID))
    body = {**lead, INSTANCE_ID: "not-the-instance-that-answers"}
    await subject.expect(412, "POST", replica_wire.BECOME_LEADER, json=body)
    await _expect_replicas(subject, {})


async def isr_answers(subject: BrokerClient) -> None:
    """Unexpected answers change nothing; ISR requests can be polled at any time."""
    await _lead(subject, 1, [_FIRST])
    nobodys = [
        IsrAnswer(_FIRST, _state(1, 7), is_granted=False),
        IsrAnswer(_FIRST, None, is_granted=False),
        IsrAnswer(_SECOND, _state(1, 7), is_granted=True),
    ]
    for body in replica_wire.encode_answers(nobodys):
        await subject.expect(200, "POST", replica_wire.ISR_ANSWERS, json=body)
    await _expect_replicas(subject, {_FIRST: (_TOPIC_ID, 1)})
    for proposal in replica_wire.wishes(await subject.expect(200, "GET", replica_wire.ISR_WISHES)):
        if proposal.partition == _FIRST:
            unmet("no proposal of a leader without followers", proposal)


async def lag_time(subject: BrokerClient) -> None:
    """A replica that lags for the given time is removed from the ISR, and not before."""
    state = LeaderAndIsr(1, 1, (1, _ELSEWHERE), 1, version=1)
    instructions = [ReplicaState(_FIRST, _TOPIC_ID, state, (1, _ELSEWHERE))]
    for body in replica_wire.encode_instructions(instructions):
        await _call(subject, replica_wire.BECOME_LEADER, body, ())
    if proposal := await _isr_proposals(subject, _LONG_S):
        unmet(f"no proposal to remove a follower that lags for less than {_LONG_S:g} s", proposal)

    async def is_removed() -> bool:
        proposal = await _isr_proposals(subject, _SHORT_S)
        return proposal is not None and _ELSEWHERE not in proposal.isr

    await subject.eventually(
        f"{_ELSEWHERE}, which fetches nothing, is removed by a proposal "
        f"for {replica_wire.LAG_TIME}=1",
        _PROPOSED_S,
        is_removed,
    )
    for text in ("0", "-1", "1.5", "soon", ""):
        await subject.expect(
            400, "GET", f"{replica_wire.ISR_WISHES}?{replica_wire.LAG_TIME}={text}"
        )


async def malformed(subject: BrokerClient) -> None:
    """A malformed call is refused, and no part of it is carried out."""
    for path, body in _MALFORMED:
        await subject.expect(400, "POST", path, json=body)
    await _expect_replicas(subject, {})


async def clean_up(subject: BrokerClient) -> None:
    """Delete the replicas of the checks."""
    for held in await _list_replicas(subject):
        gone = ReplicaStop(held.partition, held.topic_id, held.leader_epoch, is_deleted=True)
        await _stop(subject, gone)


def _state(leader: int, epoch: int) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, (leader,), 1, version=epoch)


def _instruction(
    leader: int, epoch: int, partitions: Sequence[TopicPartition], topic_id: str
) -> list[ReplicaState]:
    state = _state(leader, epoch)
    return [ReplicaState(one, topic_id, state, (leader,)) for one in partitions]


async def _lead(
    subject: BrokerClient,
    epoch: int,
    partitions: Sequence[TopicPartition],
    errors: Sequence[ReplicaError] = (),
    topic_id: str = _TOPIC_ID,
) -> None:
    for body in replica_wire.encode_instructions(_instruction(1, epoch, partitions, topic_id)):
        await _call(subject, replica_wire.BECOME_LEADER, body, errors)


async def _follow(
    subject: BrokerClient,
    epoch: int,
    partitions: Sequence[TopicPartition],
    errors: Sequence[ReplicaError] = (),
    topic_id: str = _TOPIC_ID,
) -> None:
    for body in replica_wire.encode_instructions(
        _instruction(_ELSEWHERE, epoch, partitions, topic_id), {}
    ):
        await _call(subject, replica_wire.BECOME_FOLLOWER, body, errors)


async def _stop(
    subject: BrokerClient, what: ReplicaStop, errors: Sequence[ReplicaError] = ()
) -> None:
    for body in replica_wire.encode_stops([what]):
        await _call(subject, replica_wire.STOP, body, errors)


async def _call(
    subject: BrokerClient, path: str, body: Mapping[str, Any], errors: Sequence[ReplicaError]
) -> None:
    found = replica_wire.errors(await subject.expect(200, "POST", path, json=body))
    if found != list(errors):
        reasons = [error.reason for error in errors]
        unmet(f"errors {reasons} in answer to POST {path}", [error.reason for error in found])


async def _isr_proposals(subject: BrokerClient, lag_time_s: float) -> IsrProposal | None:
    proposals = replica_wire.wishes(
        await subject.expect(200, "GET", replica_wire.wishes_path(lag_time_s))
    )
    return next((proposal for proposal in proposals if proposal.partition == _FIRST), None)


async def _call_numbered(
    subject: BrokerClient, path: str, body: Mapping[str, Any], call: int, status: int = 200
) -> None:
    stamp = {INSTANCE_ID: subject.instance_id, CALL: call}
    await subject.expect(status, "POST", path, json={**body, **stamp})


async def _list_replicas(subject: BrokerClient) -> list[HeldReplica]:
    held = replica_wire.replicas(await subject.expect(200, "GET", replica_wire.REPLICAS))
    return [one for one in held if one.partition.topic == _TOPIC]


async def _expect_replicas(
    subject: BrokerClient, expected: Mapping[TopicPartition, tuple[str, int]]
) -> None:
    held = {
        one.partition: (one.topic_id, one.leader_epoch) for one in await _list_replicas(subject)
    }
    if held != expected:
        unmet(f"replicas with topic id and leader epoch: {_text(expected)}", _text(held))


def _text(held: Mapping[TopicPartition, tuple[str, int]]) -> str:
    rows = [f"{one}: {topic_id} {epoch}" for one, (topic_id, epoch) in held.items()]
    return ", ".join(rows) or "none"
