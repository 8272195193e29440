import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Topic, ring_hash


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("persistent://public/default/test-topic-partition-0", 0x5F628AFD),
        ("persistent://public/default/test-topic-partition-1", 0x2865BA6B),
        ("persistent://apache/pulsar/test-topic", 0x652B5CDD),
        ("persistent://apache/pulsar/test-topic-partition-1", 0x90BA1AA7),
        ("persistent://public/default/my-topic", 0x2BAD45F7),
        ("non-persistent://public/default/np", 0x3DE38AC1),
        ("persistent://public/default/café", 0x5CBE5943),
    ],
)
def test_a_topic_lies_where_pulsar_puts_it(topic: str, expected: int) -> None:
    assert ring_hash(topic) == expected
    assert Topic.parse(topic).ring_hash == expected


def test_a_short_name_lies_where_its_complete_name_lies() -> None:
    assert Topic.parse("my-topic").ring_hash == 0x2BAD45F7


@given(st.text())
def test_every_name_lies_on_the_ring(text: str) -> None:
    assert RING_LOW <= ring_hash(text) <= RING_HIGH
