from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import (
    Assign,
    Decision,
    Merge,
    Reason,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules, SheddingRules, SplitRules
from broker_ctl.core.strategies.placement.strategies import Choice, LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory, ThresholdShedder
from broker_ctl.core.strategies.splitting.candidates import candidates
from broker_ctl.errors import InvariantBroken
from tests.support.clusters.views import BUNDLES, NOW_S, RING, broker, cluster, stats

A, B, C, D, FREE = BUNDLES[:5]
WIDE = Budgets(max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=9.0)


def planned(view: ClusterView, *proposals: Decision, budgets: Budgets = WIDE) -> Plan:
    return plan(
        view,
        proposals,
        placement=LeastLongTermMessageRate(),
        placement_rules=PlacementRules(),
        budgets=budgets,
    )


def unload(bundle: Bundle, source: str = "b1") -> Unload:
    return Unload(bundle, source, Reason.OVERLOADED, "why")


def split(bundle: Bundle, owner: str = "b1") -> Split:
    middle = (bundle.range.low + bundle.range.high) // 2
    return Split(bundle, owner, "range_equally_divide", (middle,), Reason.TOPICS, "why")


def transfer(bundle: Bundle, source: str, destination: str) -> Transfer:
    """As a policy may propose it: the plan fills in the loads."""
    none = NO_LOAD
    return Transfer(bundle, source, destination, Reason.ADMIN, "why", none, none, none)


@pytest.fixture
def view() -> ClusterView:
    reports = [
        broker("b1", 0.9, {A: stats(500), B: stats(300), C: stats(100)}),
        broker("b2", 0.2, {D: stats(200)}),
        broker("b3", 0.0),
    ]
    return cluster(reports, owners={FREE: None})


def the_skip(result: Plan) -> Skip:
    assert result.decisions == ()
    (skip,) = result.skipped
    return skip


def test_an_unload_gets_its_receiver(view: ClusterView) -> None:
    (move,) = planned(view, unload(B)).decisions
    assert isinstance(move, Transfer)
    assert (move.bundle, move.source, move.destination) == (B, "b1", "b3")
    assert move.sentence == (
        f"transfer {B} (300.0 MiB/s) from b1 (90.0% -> 60.0%) to b3 (0.0% -> 30.0%): "
        "overloaded: why; b3 has 0 msg/s, the lowest of 2"
    )


def test_the_second_choice_sees_what_the_first_one_promised(view: ClusterView) -> None:
    moves = planned(view, unload(B), unload(C)).decisions
    assert [(m.bundle, m.destination) for m in moves if isinstance(m, Transfer)] == [
        (B, "b3"),
        (C, "b2"),
    ]


def test_a_transfer_keeps_the_receiver_that_it_was_proposed_with(view: ClusterView) -> None:
    (move,) = planned(view, transfer(B, "b1", "b2")).decisions
    assert isinstance(move, Transfer)
    assert move.destination == "b2"
    assert move.source_after.usage_ratio == pytest.approx(0.6)


def test_a_transfer_to_its_own_source_or_to_nobody_is_dropped(view: ClusterView) -> None:
    assert the_skip(planned(view, transfer(B, "b1", "b1"))).reason is Reason.NO_BROKER
    assert the_skip(planned(view, transfer(B, "b1", "b9"))).reason is Reason.NO_BROKER


def test_a_bundle_that_is_split_does_not_move(view: ClusterView) -> None:
    result = planned(view, unload(A), split(A))
    assert result.decisions == (split(A),)
    (skip,) = result.skipped
    assert (skip.subject, skip.reason, skip.detail) == (
        str(A),
        Reason.SUPERSEDED,
        "a split of it is planned, until that ends",
    )


def test_a_move_that_would_only_carry_the_overload_along_is_dropped() -> None:
    reports = [broker("b1", 0.7, {A: stats(650), B: stats(50)}), broker("b2", 0.3, {C: stats(300)})]
    assert the_skip(planned(cluster(reports), unload(A))).reason is Reason.NO_GAIN


def test_the_receiver_is_one_that_gains_even_if_another_has_fewer_messages() -> None:
    reports = [
        broker("b1", 0.7, {A: stats(400), B: stats(300)}),
        broker("b2", 0.6, {C: stats(600, msg_rate=1)}),
        broker("b3", 0.1, {D: stats(100, msg_rate=90_000)}),
    ]
    (move,) = planned(cluster(reports), unload(A)).decisions
    assert isinstance(move, Transfer)
    assert move.destination == "b3"


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (unload(BUNDLES[9]), Reason.GONE),
        (unload(D), Reason.NOT_OWNED),
        (unload(FREE), Reason.NOT_OWNED),
        (split(B, "b2"), Reason.NOT_OWNED),
        (Assign(A, "b2", Reason.UNOWNED, "why"), Reason.NOT_OWNED),
        (Assign(FREE, "b9", Reason.UNOWNED, "why"), Reason.NO_BROKER),
    ],
)
def test_a_proposal_that_does_not_fit_the_view_is_dropped(
    view: ClusterView, proposal: Decision, reason: Reason
) -> None:
    assert the_skip(planned(view, proposal)).reason is reason


def test_nothing_is_planned_for_a_bundle_that_moves() -> None:
    reports = [broker("b1", 0.9, {A: stats(500), B: stats(400)}), broker("b2", 0.0)]
    moving = cluster(reports, moves=[InFlight(A, "b1", "b2")], splitting=[B])
    result = planned(moving, unload(A), unload(B))
    assert [skip.reason for skip in result.skipped] == [Reason.MOVING, Reason.MOVING]


def test_a_pinned_bundle_is_neither_moved_nor_split() -> None:
    ring = Ring.even(Namespace("pulsar", "b1:8080"), 1)
    pinned = ring.bundles[0]
    seen = cluster([broker("b1", 0.9, {pinned: stats(9)}), broker("b2", 0.0)], rings=[ring])
    result = planned(seen, unload(pinned), split(pinned))
    assert [skip.reason for skip in result.skipped] == [Reason.PINNED, Reason.PINNED]


def test_a_bundle_of_a_dead_owner_is_not_moved_from_it() -> None:
    seen = cluster([broker("b2", 0.0)], owners={A: "b1"})
    assert the_skip(planned(seen, unload(A))).reason is Reason.NOT_OWNED


def test_assignments_and_merges_pass(view: ClusterView) -> None:
    assign = Assign(FREE, "b3", Reason.UNOWNED, "why")
    merge = Merge(B, C, "b1", Reason.COLD, "why")
    assert planned(view, merge, assign).decisions == (assign, merge)


def test_spent_budgets_drop_what_comes_last(view: ClusterView) -> None:
    result = planned(view, unload(C), unload(B), budgets=replace(WIDE, max_moves=1))
    assert [decision.bundles for decision in result.decisions] == [(B,)]
    assert [(skip.subject, skip.reason) for skip in result.skipped] == [
        (str(C), Reason.BUDGET_CLUSTER)
    ]


def test_receivers_without_room_are_passed_over(view: ClusterView) -> None:
    one_each = replace(WIDE, max_moves_per_broker=1)
    seen = replace(view, moves={BUNDLES[10]: InFlight(BUNDLES[10], "b3", "b9")})
    (move,) = planned(seen, unload(B), budgets=one_each).decisions
    assert isinstance(move, Transfer)
    assert move.destination == "b2"
    seen = replace(view, moves={BUNDLES[10]: InFlight(BUNDLES[10], "b3", "b2")})
    assert the_skip(planned(seen, unload(B), budgets=one_each)).reason is Reason.BUDGET_BROKER


def test_a_bundle_that_moved_lately_stays(view: ClusterView) -> None:
    lately = replace(view.bundles[B], last_unloaded_s=NOW_S - 1)
    seen = replace(view, bundles={**view.bundles, B: lately})
    assert the_skip(planned(seen, unload(B))).reason is Reason.COOLING_DOWN


def test_skips_of_the_policies_are_kept(view: ClusterView) -> None:
    skip = Skip("cluster", Reason.BELOW_THRESHOLD, "why")
    assert the_skip(planned(view, skip)) == skip


def test_a_plan_sums_up_its_decisions_and_the_imbalance_before_and_after(view: ClusterView) -> None:
    result = planned(view, unload(B), split(A), unload(D))
    assert result.sentence == (
        "plan of epoch 7: 1 skip, 1 split, 1 transfer; max over mean usage 2.45 -> 1.64, "
        "throughput 2.45 -> 1.64"
    )
    row = result.to_row()
    assert [decision["kind"] for decision in row["decisions"]] == ["split", "transfer"]
    assert row["skipped"][0]["reason"] == "not_owned"
    assert row["usage_imbalance_after"] == result.after.usage
    assert planned(view).sentence.startswith("plan of epoch 7: nothing; max over mean usage 2.45")


class Stubborn(LeastLongTermMessageRate):
    """A faulty placement: it chooses a broker that is not a candidate."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        return replace(super().select(view, bundle, candidates, rules), broker_id="b1")


def test_a_plan_that_a_faulty_policy_spoilt_is_refused(view: ClusterView) -> None:
    with pytest.raises(InvariantBroken, match="from b1 to itself"):
        plan(
            view,
            [unload(B)],
            placement=Stubborn(),
            placement_rules=PlacementRules(),
            budgets=WIDE,
        )


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    names = [f"b{number}" for number in range(draw(st.integers(2, 5)))]
    mib = st.one_of(st.just(0.0), st.floats(1, 400))
    lines: dict[str, dict[Bundle, float]] = {name: {} for name in names}
    for bundle in BUNDLES:
        lines[draw(st.sampled_from(names))][bundle] = draw(mib)
    moving = draw(st.lists(st.sampled_from(BUNDLES), max_size=3, unique=True))
    owner_of = {bundle: name for name, loads in lines.items() for bundle in loads}
    return cluster(
        [
            broker(
                name,
                sum(loads.values()) / draw(st.sampled_from([1000, 2000])),
                {bundle: stats(load) for bundle, load in loads.items()},
                is_draining=draw(st.booleans()) and name == "b0",
                age_s=draw(st.sampled_from([0.0, 0.0, 0.0, 9999.0])),
            )
            for name, loads in lines.items()
        ],
        moves=[InFlight(b, owner_of[b], draw(st.sampled_from(names))) for b in moving],
        splitting=draw(st.lists(st.sampled_from(BUNDLES[:3]), max_size=1)),
        unloaded_s=draw(st.dictionaries(st.sampled_from(BUNDLES), st.just(NOW_S - 5), max_size=4)),
        draw_seed=draw(st.integers(0, 2**64)),
    )


budgets_drawn = st.builds(
    Budgets,
    max_moves_per_broker=st.integers(1, 4),
    max_moves=st.integers(1, 8),
    hourly_load_ratio=st.floats(0.01, 1),
    namespace_ratio=st.floats(0, 1),
)
SHEDDING = SheddingRules(min_throughput_bytes=1.0, is_lower_boundary_enabled=True)
SPLITTING = SplitRules(max_bandwidth_bytes=300 * 1024 * 1024)


def proposed(view: ClusterView) -> list[Decision]:
    shedder = ThresholdShedder()
    memory = shedder.observe(ThresholdMemory(), view, SHEDDING)
    return [*candidates(view, SPLITTING), *shedder.shed(view, memory, SHEDDING)]


@given(clusters(), budgets_drawn)
def test_no_budget_is_ever_exceeded(view: ClusterView, budgets: Budgets) -> None:
    decisions = planned(view, *proposed(view), budgets=budgets).decisions
    moves = [decision for decision in decisions if isinstance(decision, Transfer)]
    if not moves:
        return
    flying = [
        *((move.bundle, {move.source, move.destination}) for move in view.moves.values()),
        *((move.bundle, {move.source, move.destination}) for move in moves),
    ]
    assert len(flying) <= budgets.max_moves
    for broker_id in {end for move in moves for end in (move.source, move.destination)}:
        part = [bundle for bundle, ends in flying if broker_id in ends]
        assert len(part) <= budgets.max_moves_per_broker
    size = len(RING.bundles) + sum(isinstance(decision, Split) for decision in decisions)
    assert len(flying) <= max(1, int(size * budgets.namespace_ratio))
    weights = [view.bundles[bundle].load_vector.throughput_bytes for bundle, _ in flying]
    total = sum(b.expected.throughput_bytes for b in view.brokers.values())
    is_first = sum(weight > 0 for weight in weights) <= 1
    assert is_first or sum(weights) <= total * budgets.hourly_load_ratio * (1 + 1e-9)


@given(clusters())
def test_a_plan_never_makes_the_hottest_broker_hotter(view: ClusterView) -> None:
    def hottest(seen: ClusterView) -> float:
        return max(b.expected.usage_ratio for b in seen.brokers.values())

    now = view
    for decision in planned(view, *proposed(view)).decisions:
        after = now.after(decision)
        if isinstance(decision, Transfer):
            assert decision.source != decision.destination
            assert decision.destination in view.receivers(1800)
            assert decision.destination_after.usage_ratio < decision.source_before.usage_ratio
        assert hottest(after) <= hottest(now) + 1e-9
        now = after


@given(clusters(), budgets_drawn)
def test_nothing_that_is_busy_or_cooling_down_is_moved(view: ClusterView, budgets: Budgets) -> None:
    for decision in planned(view, *proposed(view), budgets=budgets).decisions:
        for bundle in decision.bundles:
            assert not view.is_busy(bundle)
            if isinstance(decision, Transfer):
                assert view.bundles[bundle].last_unloaded_s is None


@given(clusters(), budgets_drawn)
def test_the_order_of_the_proposals_does_not_matter(view: ClusterView, budgets: Budgets) -> None:
    proposals = proposed(view)
    expected = planned(view, *proposals, budgets=budgets)
    assert planned(view, *reversed(proposals), budgets=budgets) == expected
    assert planned(view, *proposals[1::2], *proposals[::2], budgets=budgets) == expected


@given(clusters())
def test_every_proposal_is_done_or_skipped_with_a_reason(view: ClusterView) -> None:
    proposals = proposed(view)
    result = planned(view, *proposals)
    assert len(result.decisions) + len(result.skipped) == len(proposals)
    assert all(skip.detail for skip in result.skipped)


# Brokers of several sizes.


def sized(first: float, second: float) -> ClusterView:
    """A broker twice as large as the mean one, and one half as large; 40 is 10 % of a mean one."""
    large = broker("b1", first, {A: stats(40), B: stats(first * 800 - 40)})
    small = broker("b2", second, {C: stats(second * 200)})
    return cluster([replace(large, size_ratio=2.0), replace(small, size_ratio=0.5)])


def test_a_small_broker_does_not_get_what_would_fill_it_above_the_giver() -> None:
    """10 % of a mean broker are 5 % of the large one and 20 % of the small one."""
    assert planned(sized(0.8, 0.59), unload(A)).decisions
    full = planned(sized(0.8, 0.61), unload(A))
    assert [skip.reason for skip in full.skipped] == [Reason.NO_GAIN]


def test_a_plan_expects_the_usage_of_both_brokers_by_their_own_sizes() -> None:
    view = sized(0.8, 0.4)
    (move,) = planned(view, transfer(A, "b1", "b2")).decisions
    assert isinstance(move, Transfer)
    assert move.source_before.usage_ratio == pytest.approx(0.8)
    after = view.after(move)
    assert after.brokers["b1"].expected.usage_ratio == pytest.approx(0.75)
    assert after.brokers["b2"].expected.usage_ratio == pytest.approx(0.6)
