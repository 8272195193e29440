from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.broker.load.reporter import ReportedTraffic, names_within, traffic_of
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.store.records.load import line_bytes

BUNDLES = Ring.even(Namespace("public", "default"), 64).bundles
LINE_BYTES = line_bytes(str(BUNDLES[0]))


def traffic(values: list[float], room: int) -> ReportedTraffic:
    """One bundle per value, in bytes/s, and room for ``room`` of them."""
    statistics = {
        bundle: BundleStats(msg_throughput_in=value, topics=1)
        for bundle, value in zip(BUNDLES, values, strict=False)
    }
    return traffic_of(statistics, room * LINE_BYTES)


def texts(*indexes: int) -> list[str]:
    return [str(BUNDLES[index]) for index in indexes]


def test_the_heaviest_are_listed_by_name_and_the_rest_is_summed_up() -> None:
    found = traffic([1.0, 8.0, 2.0, 4.0], room=2)
    assert list(found.listed) == texts(1, 3)
    assert found.unlisted == BundleStats(msg_throughput_in=3.0, topics=2)
    assert found.unlisted_bundles == 2
    assert found.bundles == frozenset(texts(0, 1, 2, 3))


def test_bundles_are_all_listed_where_there_is_room() -> None:
    found = traffic([1.0, 8.0], room=2)
    assert list(found.listed) == texts(0, 1)
    assert (found.unlisted, found.unlisted_bundles) == (BundleStats(), 0)


def test_of_equal_bytes_the_one_with_more_messages_is_heavier() -> None:
    statistics = {BUNDLES[0]: BundleStats(1.0, 0.0, 5.0), BUNDLES[1]: BundleStats(2.0, 0.0, 5.0)}
    assert list(traffic_of(statistics, LINE_BYTES).listed) == texts(1)


@given(st.lists(st.floats(0, 1e9), max_size=64), st.integers(-1, 70))
def test_nothing_is_lost_and_nothing_listed_is_lighter_than_what_is_not(
    values: list[float], room: int
) -> None:
    found = traffic(values, room)
    assert len(found.listed) == min(len(values), max(room, 0))
    listed = [line.throughput for line in found.listed.values()]
    left_out = [
        value
        for bundle, value in zip(BUNDLES, values, strict=False)
        if str(bundle) not in found.listed
    ]
    assert min(listed, default=float("inf")) >= max(left_out, default=0.0)
    assert abs(sum(listed) + found.unlisted.throughput - sum(values)) <= 1e-6 * (1 + sum(values))
    assert found.unlisted.topics == found.unlisted_bundles == len(left_out)


def test_names_are_kept_while_there_is_room() -> None:
    names = {"b", "a", "c" * 100}
    assert names_within(names, 1000) == ("a", "b", "c" * 100)
    assert names_within(names, 8) == ("a", "b")
    assert names_within(names, 3) == ()
