"""What the side-by-side run counts, by hand; the run itself needs a Pulsar cluster."""

from math import isclose

import pytest

from broker_ctl.core.model.names import Bundle
from tests.benchmarks.beside_pulsar.figures import (
    Moved,
    Owner,
    Sample,
    imbalance,
    interruptions_s,
    moves,
    quantile,
)
from tests.benchmarks.beside_pulsar.load import CALM, HOT, Flow, first_owners, flows

SENT = flows(7, 1200.0)


def flow_in(bundles: set[Bundle], before: float, after: float) -> Flow:
    """A topic in a bundle that none of the others is in."""
    number = next(
        number
        for number in range(1000)
        if Flow(f"persistent://{HOT}/{number}", 0, 0).bundle not in bundles
    )
    flow = Flow(f"persistent://{HOT}/{number}", before, after)
    bundles.add(flow.bundle)
    return flow


TAKEN: set[Bundle] = set()
A, B, C = flow_in(TAKEN, 60.0, 10.0), flow_in(TAKEN, 30.0, 30.0), flow_in(TAKEN, 30.0, 80.0)


def sample(at_s: float, **owners: tuple[str, int]) -> Sample:
    bundles = {"a": A.bundle, "b": B.bundle, "c": C.bundle}
    return Sample(at_s, {bundles[name]: Owner(*owner) for name, owner in owners.items()})


def test_as_much_is_sent_after_the_step_and_to_the_hot_namespace() -> None:
    assert isclose(sum(flow.before for flow in SENT), 1200.0)
    assert isclose(sum(flow.after for flow in SENT), 1200.0)
    hot = [flow for flow in SENT if flow.bundle.namespace == HOT]
    assert isclose(sum(flow.before for flow in hot), 780.0)
    assert sum(flow.after > 1.5 * flow.before for flow in hot) == 5
    calm = [flow for flow in SENT if flow.bundle.namespace == CALM]
    assert all(flow.before == flow.after for flow in calm)
    assert len({flow.topic for flow in SENT}) == 64


def test_load_and_placement_come_from_the_seed_alone() -> None:
    assert flows(7, 1200.0) == SENT != flows(8, 1200.0)
    brokers = ("x:1", "y:1", "z:1")
    placed = first_owners(7, brokers)
    assert placed == first_owners(7, brokers) != first_owners(8, brokers)
    assert len(placed) == 32
    assert set(placed.values()) == set(brokers)


def test_the_fullest_broker_is_held_against_the_mean_of_all() -> None:
    seen = sample(0.0, a=("x:1", 1), b=("x:1", 2), c=("y:1", 3))
    # 90, 30 and nothing: the mean is 40.
    brokers = ("x:1", "y:1", "z:1")
    assert imbalance(seen, (A, B, C), brokers, is_after=False) == pytest.approx(90 / 40)
    assert imbalance(seen, (A, B, C), brokers, is_after=True) == pytest.approx(80 / 40)
    assert imbalance(sample(0.0), (A, B, C), brokers, is_after=False) is None


def test_a_bundle_on_its_way_is_carried_by_nobody() -> None:
    seen = sample(0.0, a=("x:1", 1), c=("y:1", 3))
    assert imbalance(seen, (A, B, C), ("x:1", "y:1"), is_after=False) == pytest.approx(60 / 45)


def test_a_move_is_an_owner_node_in_place_of_another() -> None:
    found = moves(
        [
            sample(1.0, a=("x:1", 1), b=("x:1", 2)),
            sample(2.0, a=("x:1", 1)),
            sample(3.0, a=("x:1", 1), b=("y:1", 5), c=("y:1", 6)),
            # Another owner node at the same broker is a move, too.
            sample(4.0, a=("x:1", 9), b=("y:1", 5), c=("y:1", 6)),
        ]
    )
    assert found == [Moved(B.bundle, 1.0, 3.0), Moved(A.bundle, 3.0, 4.0)]


def test_an_interruption_is_the_longest_send_around_a_move() -> None:
    moved = [Moved(A.bundle, 10.0, 11.0), Moved(B.bundle, 20.0, 21.0)]
    slow = {
        # Over before it, longest during it, begun well after it.
        A.topic: [(5.0, 3.9), (10.2, 0.4), (10.3, 0.3), (14.1, 9.0)],
        C.topic: [(10.0, 7.0)],
    }
    assert interruptions_s(moved, (A, B, C), slow) == [0.4, 0.0]
    assert interruptions_s([Moved(A.bundle, 9.0, 9.5)], (A,), {A.topic: [(5.0, 3.1)]}) == [3.1]


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1.0)) == (50, 99, 100)
    assert (quantile([3.0], 0.01), quantile([], 0.5)) == (3.0, 0.0)
