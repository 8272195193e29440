"""Our decoders against what a real cluster wrote and answered once; needs no Pulsar."""

import pytest

from broker_ctl.core.model.names import Topic
from tests.pulsar.record import BUNDLE_RANGES, NAMESPACE, RECORDED
from tests.support.pulsar.checks import (
    broker_ids,
    check_leader,
    check_owners,
    check_report,
    check_ring,
    ring_of,
)
from tests.support.pulsar.snapshot import Snapshot

FILES = sorted(RECORDED.glob("cluster-*.json"))


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def recorded(request: pytest.FixtureRequest) -> Snapshot:
    return Snapshot.load(request.param)


def test_our_reading_of_nodes_equals_what_brokers_answered(recorded: Snapshot) -> None:
    ids = broker_ids(recorded)
    assert len(ids) == 2
    for broker_id in ids:
        check_report(recorded, broker_id)
    check_leader(recorded)
    assert check_owners(recorded) >= 5
    assert check_ring(recorded, "public/default") == 16
    assert check_ring(recorded, NAMESPACE) == 5


def test_every_topic_is_in_the_bundle_that_we_say(recorded: Snapshot) -> None:
    ring = ring_of(recorded.nodes, NAMESPACE)
    said = recorded.answers[BUNDLE_RANGES]
    assert len(said) == 100
    assert said == {name: str(ring.bundle_of(Topic.parse(name)).range) for name in said}
