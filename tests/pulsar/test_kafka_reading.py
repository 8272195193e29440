"""Our nodes of brokers and topics, read by the decoders of Kafka's own ZooKeeper client."""

import asyncio
import os
import random
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from broker_ctl.controller.store.loader import new_topic_id
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr, LiveBroker, TopicAssignment
from broker_ctl.java import first_new_enough, installed
from broker_ctl.store.records.partitions import (
    ControllerRecord,
    encode_broker,
    encode_state,
    encode_topic,
)
from tests.support.java.maven import brought_once

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(900)]

HERE = Path(__file__).parent / "kafka"
VERSION = "3.9.1"


def read(*nodes: tuple[str, str, bytes]) -> list[str]:
    """What Kafka's decoder of each kind makes of a payload."""
    search = asyncio.run(first_new_enough(installed(os.environ), 17))
    assert search.java is not None, search.complaint
    jars = brought_once(f"kafka-{VERSION}", HERE / "pom.xml", {"kafka.version": VERSION}) / "lib"
    answer = subprocess.run(
        (str(search.java), "-cp", f"{jars}/*", str(HERE / "Reader.java")),
        input="".join(f"{kind} {name} {b64encode(data).decode()}\n" for kind, name, data in nodes),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=300,
    )
    return [line for line in answer.stdout.splitlines() if not line.startswith(("SLF4J", "log4j"))]


def test_kafka_reads_brokers_topics_states_and_the_controller() -> None:
    rng = random.Random(7)
    ids = [new_topic_id(rng) for _ in range(20)]
    topics = [
        ("topic", "t", encode_topic(TopicAssignment(one, {0: Assignment((1, 2))}))) for one in ids
    ]
    broker = LiveBroker(1, 0, "h", 6650, "h:8080", "http://h:8080")
    controller = ControllerRecord(3, 7, "h:8080", "http://h:8080")
    found = read(
        ("broker", "1", encode_broker(broker, 5)),
        ("broker", "2", encode_broker(LiveBroker(2, 0, "h", 1, "", "", rack="r1"), 5)),
        ("state", "0", encode_state(LeaderAndIsr(2, 4, (2, 1), 7))),
        ("controller", "-", controller.encode(5)),
        *topics,
    )
    assert "EndPoint(h,6650," in found[0]
    assert found[0].endswith(" None -1")
    assert found[1].endswith(" Some(r1) -1")
    assert not found[2].startswith("failed")
    assert found[3] == "3"
    assert found[4:] == [f"{one} 1" for one in ids]
