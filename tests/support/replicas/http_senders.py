"""A sender of instructions to broker 7, and topics of which it sends the states."""

import random

from broker_ctl.controller.term import ResponseInbox
from broker_ctl.controller.transport.http import Call, HttpSender, SenderDependencies
from broker_ctl.controller.transport.messages import (
    InstructionEncoder,
    PartitionUpdate,
    encode_comparable,
)
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.lab.time import LoopClock

BROKER = LiveBroker(7, 70, "h7", 6650)


def updates(first: int, count: int, epoch: int = 0) -> dict[TopicPartition, PartitionUpdate]:
    """Updates of partitions of topic t."""
    state = LeaderAndIsr(7, epoch, (7, 8), 3, version=4)
    names = [TopicPartition("t", number) for number in range(first, first + count)]
    return {each: encode_comparable(ReplicaState(each, "id-t", state, (7, 8))) for each in names}


def encoder() -> InstructionEncoder:
    """The encoder of a controller that knows broker 7 and topic t."""
    context = Context(3)
    context.put_brokers({7: BROKER})
    context.put_topic("t", TopicAssignment("id-t", {0: Assignment((7, 8))}))
    return InstructionEncoder(1, context)


def sender_with(call: Call) -> HttpSender:
    """A sender whose instructions go to ``call``."""
    dependencies = SenderDependencies(
        call=call,
        encoder=encoder(),
        listener=ResponseInbox(lambda: None, lambda: None),
        clock=LoopClock(),
        instruments=ControllerInstruments(),
        acknowledge_s=lambda: 1.0,
        rng=random.Random(1),
    )
    return HttpSender(dependencies, BROKER)
