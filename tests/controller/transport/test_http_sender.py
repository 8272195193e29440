"""Instructions to one broker by HTTP: what goes together, and what a broker has already."""

import pytest

from broker_ctl.broker.replicas.instructions import KnownReplica, KnownReplicas
from broker_ctl.codec import decode_object, encode
from broker_ctl.controller.transport.http import GATHER_S, MANY_REQUESTS
from broker_ctl.controller.transport.messages import FullRequests, encode_comparable
from broker_ctl.core.partitions.instructions import MAX_SPANS, Instruction, ReplicaState
from broker_ctl.core.partitions.values import LeaderAndIsr, LiveBroker, TopicPartition
from broker_ctl.http_client import HttpReply
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.tasks import TaskScope
from tests.support.replicas.http_senders import encoder, sender_with, updates
from tests.support.time.waiting import eventually

# Fill three instructions.
MANY = 9000


@in_virtual_time
async def test_what_follows_a_large_instruction_soon_goes_together_and_small_ones_at_once() -> None:
    clock, sent = LoopClock(), list[tuple[float, int]]()
    # While one of them is on its way, these come.
    following = [[updates(100, 1), updates(200, 2)], [updates(300, 1)], []]
    began_s = clock.now_s()

    async def call(broker: LiveBroker, body: bytes, timeout_s: float) -> HttpReply:
        sent.append((clock.now_s() - began_s, len(decode_object(body)["partitions"])))
        for requests in following[len(sent) - 1]:
            sender.put({**requests})
        return HttpReply(200, {}, encode({"broker_epoch": broker.epoch, "errors": []}))

    sender = sender_with(call)
    sender.put({**updates(0, MANY_REQUESTS)})
    async with TaskScope("sender") as tasks:
        tasks.start(sender.run(), "sender")
        await eventually(lambda: len(sent) == 3)
    times_s, counts = zip(*sent, strict=True)
    assert counts == (MANY_REQUESTS, 3, 1)
    assert [round(at_s, 6) for at_s in times_s] == [0.0, GATHER_S, GATHER_S]


class Peer:
    """The broker; it obeys, and answers instructions with digests as a test wants."""

    def __init__(self, *answers: HttpReply | None) -> None:
        self.answers = list(answers)
        self.instructions: list[Instruction] = []
        self.replicas = KnownReplicas()

    async def call(self, broker: LiveBroker, body: bytes, _timeout_s: float) -> HttpReply:
        instruction = Instruction.parse(decode_object(body))
        self.instructions.append(instruction)
        spans = instruction.spans
        if spans and self.answers and (reply := self.answers.pop(0)) is not None:
            return reply
        for each in instruction.partitions:
            known = KnownReplica(each.topic_id, each.state.leader_epoch, may_lead=True)
            self.replicas.put(each.partition, known)
        self.replicas.confirm(instruction.partitions, broker.broker_id)
        differing = [n for n, span in enumerate(spans) if not self.replicas.is_as(span)]
        answer = {"broker_epoch": broker.epoch, "errors": [], "differing": differing}
        return HttpReply(200, {}, encode(answer))


async def send_full(peer: Peer, requests: FullRequests) -> list[int]:
    """Send everything, and something else after it; the states in each instruction of the first."""
    sender = sender_with(peer.call)
    sender.put_full(requests)
    sender.put({**updates(MANY, 1)})
    async with TaskScope("sender") as tasks:
        tasks.start(sender.run(), "sender")
        await eventually(lambda: any(map(_is_last, peer.instructions)))
    peer.replicas.remove(TopicPartition("t", MANY))
    counts = [len(each.partitions) for each in peer.instructions]
    peer.instructions.clear()
    return counts[:-1]


def _is_last(instruction: Instruction) -> bool:
    return [each.partition.partition for each in instruction.partitions] == [MANY]


@in_virtual_time
async def test_a_broker_that_has_everything_is_sent_digests_alone() -> None:
    peer = Peer()
    first = await send_full(peer, updates(0, MANY))
    assert (first[0], sum(first), len(first)) == (0, MANY, 4)
    assert await send_full(peer, updates(0, MANY)) == [0]


@in_virtual_time
async def test_of_what_differs_the_spans_are_sent() -> None:
    peer = Peer()
    _, first, second, third = await send_full(peer, updates(0, MANY))
    assert await send_full(peer, {**updates(0, MANY), **updates(first, 1, epoch=1)}) == [0, second]
    assert await send_full(peer, updates(0, MANY)) == [0, second]
    # A replica that is a stray now.
    peer.replicas.put(TopicPartition("z", 0), KnownReplica("id-z", 1, may_lead=False))
    assert await send_full(peer, updates(0, MANY)) == [0, third]


@pytest.mark.parametrize(
    ("answers", "digests"),
    [
        ([HttpReply(400, {}, b"{}")], 1),
        ([HttpReply(200, {}, b'{"broker_epoch": 70, "errors": []}')], 1),
        ([HttpReply(200, {}, b'{"differing": [7]}'), HttpReply(200, {}, b'{"differing": 7}')], 3),
        (
            [
                HttpReply(200, {}, b'{"differing": [-1]}'),
                HttpReply(200, {}, b'{"differing": [true]}'),
            ],
            3,
        ),
        ([HttpReply(200, {}, b'{"differing": [2, 0, 1, 0, 2]}')], 1),
        ([HttpReply(503, {}, b"{}"), HttpReply(200, {}, b"[]"), HttpReply(200, {}, b"{")], 4),
    ],
    ids=[
        "a release without digests",
        "no such field",
        "unknown spans",
        "no numbers of spans",
        "spans named twice",
        "anything else",
    ],
)
@in_virtual_time
async def test_without_an_answer_that_says_what_differs_everything_is_sent(
    answers: list[HttpReply], digests: int
) -> None:
    found = await send_full(Peer(*answers), updates(0, MANY))
    assert (found[:digests], sum(found), len(found)) == ([0] * digests, MANY, digests + 3)


@in_virtual_time
async def test_a_broker_that_refuses_digests_as_stale_is_sent_nothing_in_their_place() -> None:
    assert await send_full(Peer(HttpReply(409, {}, b"{}")), updates(0, MANY)) == [0]


@in_virtual_time
async def test_more_spans_than_one_instruction_has_go_in_several() -> None:
    (update,) = updates(0, 1).values()
    # Of topics that are gone meanwhile: their states are left out.
    requests = {TopicPartition(f"{'t' * 240}{number:05d}", 0): update for number in range(8000)}
    assert len(list(encoder().split_full(requests))) > MAX_SPANS
    assert await send_full(Peer(), requests) == [0, 0]


@in_virtual_time
async def test_a_reassignment_that_adds_a_replica_is_sent_also_without_another_state() -> None:
    peer, partition = Peer(), TopicPartition("t", 0)
    state = LeaderAndIsr(7, 0, (7, 8), 3, version=4)
    added = encode_comparable(ReplicaState(partition, "id-t", state, (7, 8), adding=(8,)))
    for requests in (updates(0, 1), {partition: added}) * 2:
        assert await send_full(peer, requests) == [0, 1]
        assert await send_full(peer, requests) == [0]


@in_virtual_time
async def test_the_first_replicas_that_failed_are_logged_and_the_number_of_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def call(broker: LiveBroker, body: bytes, _timeout_s: float) -> HttpReply:
        failed = [
            [*each.partition, "failed"]
            for each in Instruction.parse(decode_object(body)).partitions
        ]
        answer = {"broker_epoch": broker.epoch, "errors": [["other", 0, "failed"], *failed]}
        return HttpReply(200, {}, encode(answer))

    sender = sender_with(call)
    sender.put({**updates(0, 100)})
    async with TaskScope("sender") as tasks:
        tasks.start(sender.run(), "sender")
        await eventually(lambda: caplog.messages)
    first = "t-0 failed, t-1 failed, t-2 failed, t-3 failed, t-4 failed"
    assert caplog.messages == [f"broker 7 failed 100 replicas: {first}"]
