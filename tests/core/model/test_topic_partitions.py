"""Which partitions of topics are in a bundle follows from their names alone."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import (
    MAX_PARTITIONS,
    NO_TOPIC_PARTITIONS,
    RING_HIGH,
    Bundle,
    BundleRange,
    Namespace,
    Ring,
    Topic,
    TopicPartitions,
)

SHOP, OTHER = Namespace("shop", "orders"), Namespace("shop", "users")
ORDERS, CARTS = (Topic("persistent", SHOP, name) for name in ("orders", "carts"))


def known(**partitions: int) -> TopicPartitions:
    topics = (Topic("persistent", SHOP, name) for name in partitions)
    return NO_TOPIC_PARTITIONS.replaced(zip(topics, partitions.values(), strict=True))


@given(st.integers(1, 16), st.integers(2, 40), st.integers(2, 40))
def test_each_partition_is_in_the_bundle_that_its_name_hashes_to(
    bundles: int, orders: int, carts: int
) -> None:
    topics, ring = known(orders=orders, carts=carts), Ring.even(SHOP, bundles)
    counts: Counter[str] = Counter()
    for bundle in ring.bundles:
        expected = Counter(
            str(topic)
            for topic, count in ((ORDERS, orders), (CARTS, carts))
            for number in range(count)
            if Topic.parse(f"{topic}-partition-{number}").ring_hash in bundle.range
        )
        assert topics.of(bundle) == expected
        counts.update(expected)
    assert counts == {str(ORDERS): orders, str(CARTS): carts}


def test_the_last_bundle_of_a_ring_has_its_upper_end() -> None:
    found = TopicPartitions({SHOP: {"t": 2}}, {SHOP: ([0, RING_HIGH], ["t", "t"])})
    assert found.of(Bundle(SHOP, BundleRange(RING_HIGH - 1, RING_HIGH))) == {"t": 1}
    assert found.of(Bundle(SHOP, BundleRange(0, 1))) == {"t": 1}


def test_topics_of_one_partition_and_of_other_namespaces_do_not_count() -> None:
    topics = known(orders=1, carts=3)
    (whole,) = Ring.even(SHOP, 1).bundles
    assert topics.of(whole) == {str(CARTS): 3}
    assert topics.of(Ring.even(OTHER, 1).bundles[0]) == {}
    assert not known(orders=1)
    assert (topics.total(SHOP, str(CARTS)), topics.total(OTHER, str(CARTS))) == (3, 0)


def test_a_number_of_partitions_that_cannot_be_is_bounded() -> None:
    assert known(orders=2**31 - 1).total(SHOP, str(ORDERS)) == MAX_PARTITIONS


def test_a_replaced_value_knows_new_numbers() -> None:
    (whole,) = Ring.even(SHOP, 1).bundles
    before = known(orders=3)
    assert before.of(whole) == {str(ORDERS): 3}
    assert before.replaced([(ORDERS, 5)]).of(whole) == {str(ORDERS): 5}
    assert before.replaced([(ORDERS, 3)]).of(whole) == {str(ORDERS): 3}
    assert before.replaced([]).of(whole) == {}


@given(st.lists(st.integers(0, 7), max_size=12))
def test_what_a_broker_has_is_what_its_bundles_have(changes: list[int]) -> None:
    topics, bundles = known(orders=20, carts=9), Ring.even(SHOP, 8).bundles
    owned: set[Bundle] = set()
    counts = topics.after({}, (), ())
    for number in changes:
        bundle = bundles[number]
        if bundle in owned:
            counts = topics.after(counts, [bundle], ())
        else:
            counts = topics.after(counts, (), [bundle])
        owned ^= {bundle}
        expected: Counter[str] = Counter()
        for each in owned:
            expected.update(topics.of(each))
        assert counts == {topic: count for topic, count in expected.items() if count}
