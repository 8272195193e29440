"""The simulated leader knows loads and owners as the leader of a daemon does."""

import pytest

from broker_ctl.core.model.load import BundleLoad
from broker_ctl.simulation.model.scenario import ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.replay.board import Board, reports_of
from broker_ctl.simulation.replay.cluster import ReplayCluster
from tests.support.pipeline.small_scenarios import MB, bundles_of, small

LOW, HIGH = bundles_of(2)
BOTH_ON_A = ("a", "a")


def cluster_of(*loads_mb: float, owners: tuple[str, ...] = BOTH_ON_A) -> ReplayCluster:
    return ReplayCluster(small(loads_mb, owners, minutes=200))


def test_before_the_first_report_there_are_brokers_and_no_bundles() -> None:
    view = Board(cluster_of(60.0, 20.0)).view(0)
    assert list(view.brokers) == ["a", "b"]
    assert view.bundles == {}


def test_a_view_says_who_owns_what_and_how_full_that_makes_them() -> None:
    cluster = cluster_of(60.0, 20.0)
    board = Board(cluster)
    board.fold_reports(reports_of(cluster, 0))
    view = board.view(1, 5.0)
    a, b = view.brokers.values()
    assert (view.taken_at_s, a.age_s) == (65.0, 5.0)
    assert [a.usage_ratio, b.usage_ratio] == pytest.approx([0.8, 0.0])
    assert a.owned == {LOW, HIGH}
    seen = view.bundles[LOW]
    assert (seen.owner, seen.load.short.samples) == ("a", 1)
    assert seen.load.short.throughput == pytest.approx(60 * MB)
    assert seen.current is not None
    assert (seen.current.topics, seen.current.sessions) == (4, 8)


def test_a_move_shows_at_once_and_is_settled_for_an_hour() -> None:
    cluster = cluster_of(60.0, 20.0)
    board = Board(cluster)
    board.fold_reports(reports_of(cluster, 0))
    cluster.give(0, "b", 0.0, 5.0)
    board.on_move(LOW, 62.0, 60 * MB)
    view = board.view(1, 5.0)
    assert (view.bundles[LOW].owner, view.bundles[LOW].last_unloaded_s) == ("b", 62.0)
    assert view.brokers["b"].expected.usage_ratio == pytest.approx(0.6)
    assert [past.throughput_bytes for past in view.settled] == [60 * MB]
    assert board.view(61).settled != ()
    assert board.view(62).settled == ()


def test_children_have_their_part_of_the_average_until_they_are_reported() -> None:
    cluster = cluster_of(60.0, 20.0)
    board = Board(cluster)
    board.fold_reports(reports_of(cluster, 0))
    whole = board.view(1).bundles[LOW].load
    late = reports_of(cluster, 1)
    children = cluster.split(0, (LOW.range.high // 4,))
    board.on_split(0, LOW, children, 61.0)
    view = board.view(1, 2.0)
    assert set(view.bundles) == {*children, HIGH}
    first = view.bundles[children[0]]
    assert (first.owner, first.current, first.last_split_s) == ("a", None, 61.0)
    assert first.load == whole.part(
        (children[0].range.high - LOW.range.low) / (LOW.range.high - LOW.range.low)
    )
    # A report from before the split has the other one only.
    board.fold_reports(late)
    after = board.view(2)
    assert after.bundles[children[0]].load == first.load
    assert after.bundles[HIGH].load.short.samples == 2
    board.fold_reports(reports_of(cluster, 2))
    assert board.view(3).bundles[children[0]].load.short.samples == 1


def test_a_merged_bundle_is_unknown_until_it_is_reported() -> None:
    cluster = cluster_of(60.0, 20.0)
    board = Board(cluster)
    board.fold_reports(reports_of(cluster, 0))
    whole = cluster.merge(0, 0.0)
    board.on_merge(0, 60.0)
    assert board.view(1).bundles == {}
    reports = reports_of(cluster, 1)
    board.fold_reports(reports)
    seen = board.view(2).bundles[whole]
    assert seen.last_split_s == 60.0
    line = reports.loads["a"].bundles[str(whole)]
    assert seen.load == BundleLoad.unseen().fold(line)


def test_the_report_of_an_earlier_life_says_nothing() -> None:
    cluster = cluster_of(60.0, 20.0)
    board = Board(cluster)
    board.fold_reports(reports_of(cluster, 0))
    cluster.apply_event(ScenarioEvent(1, "a", ScenarioEventKind.DOWN))
    cluster.apply_event(ScenarioEvent(1, "a", ScenarioEventKind.UP))
    view = board.view(1)
    assert view.brokers["a"].usage_ratio == 0.0
    assert view.bundles[LOW].owner is None


def test_no_two_views_draw_alike() -> None:
    board = Board(cluster_of(60.0, 20.0))
    assert len({board.view(0).draw_seed, board.view(0).draw_seed, board.view(1).draw_seed}) == 3
