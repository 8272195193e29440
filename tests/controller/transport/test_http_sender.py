"""Instructions to one broker by HTTP: what goes together."""

import random

from broker_ctl.codec import decode_object, encode
from broker_ctl.controller.term import ResponseInbox
from broker_ctl.controller.transport.http_sender import (
    GATHER_S,
    MANY_REQUESTS,
    HttpSender,
    SenderDependencies,
)
from broker_ctl.controller.transport.messages import (
    BrokerRequests,
    InstructionEncoder,
    encode_update,
)
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
)
from broker_ctl.http_client import HttpReply
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.tasks import TaskScope
from broker_ctl.testing.virtual_time import LoopClock, in_virtual_time
from tests.support.time.waiting import eventually

BROKER = LiveBroker(7, 70, "h7", 6650)


def updates(first: int, count: int) -> BrokerRequests:
    state = LeaderAndIsr(7, 0, (7, 8), 3, version=4)
    names = [TopicPartition("t", number) for number in range(first, first + count)]
    return {each: encode_update(ReplicaState(each, "id-t", state, (7, 8))) for each in names}


@in_virtual_time
async def test_what_follows_a_large_instruction_soon_goes_together_and_small_ones_at_once() -> None:
    clock, sent = LoopClock(), list[tuple[float, int]]()
    context = Context(3)
    context.put_brokers({7: BROKER})
    context.put_topic("t", TopicAssignment("id-t", {0: Assignment((7, 8))}))
    # While one of them is on its way, these come.
    following = [[updates(100, 1), updates(200, 2)], [updates(300, 1)], []]
    began_s = clock.now_s()

    async def call(broker: LiveBroker, body: bytes, timeout_s: float) -> HttpReply:
        sent.append((clock.now_s() - began_s, len(decode_object(body)["partitions"])))
        for requests in following[len(sent) - 1]:
            sender.put(requests)
        return HttpReply(200, {}, encode({"broker_epoch": broker.epoch, "errors": []}))

    dependencies = SenderDependencies(
        call=call,
        encoder=InstructionEncoder(1, context),
        listener=ResponseInbox(lambda: None, lambda: None),
        clock=clock,
        instruments=ControllerInstruments(),
        acknowledge_s=lambda: 1.0,
        rng=random.Random(1),
    )
    sender = HttpSender(dependencies, BROKER)
    sender.put(updates(0, MANY_REQUESTS))
    async with TaskScope("sender") as tasks:
        tasks.start(sender.run(), "sender")
        await eventually(lambda: len(sent) == 3)
    times_s, counts = zip(*sent, strict=True)
    assert counts == (MANY_REQUESTS, 3, 1)
    assert [round(at_s, 6) for at_s in times_s] == [0.0, GATHER_S, GATHER_S]
