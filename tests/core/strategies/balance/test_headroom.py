"""What is left when a broker dies: worked examples, and the bound against real placements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.strategies.balance.headroom import (
    after_domain_loss,
    after_each_loss,
    after_loss,
    has_headroom,
    headroom_text,
)
from broker_ctl.core.strategies.balance.problem import usage_of


def column(*values: float) -> Floats:
    return np.array(values, np.float64).reshape(-1, 1)


def test_survivors_share_everything_by_their_capacity() -> None:
    # 240 of 400: three of four equals carry it at 80 %.
    load, capacity = column(60, 90, 50, 40), column(100, 100, 100, 100)
    assert after_each_loss(load, capacity) == pytest.approx([0.8, 0.8, 0.8, 0.8])
    assert after_loss(load, capacity) == pytest.approx((0.8, 1))
    assert has_headroom(load, capacity)
    assert not has_headroom(load, capacity, limit_ratio=0.79)


def test_the_worst_to_lose_is_the_largest_whatever_it_carries() -> None:
    load, capacity = column(10, 90, 90), column(400, 100, 100)
    assert after_each_loss(load, capacity) == pytest.approx([0.95, 0.38, 0.38])
    assert after_loss(load, capacity) == pytest.approx((0.95, 0))


def test_a_whole_domain_is_lost_with_the_capacity_of_all_its_brokers() -> None:
    load, capacity = column(40, 40, 40, 40), column(100, 100, 100, 200)
    # 160 of 500: without the first domain 300 are left, without the second 200.
    domains = ["a", "a", "b", "b"]
    assert after_domain_loss(load, capacity, domains) == pytest.approx((0.8, "b"))
    # A broker without a domain stays whichever is lost.
    assert after_domain_loss(load, capacity, ["a", "", "b", ""]) == pytest.approx((0.4, "a"))


@pytest.mark.parametrize("domains", [["", "", ""], ["a", "a", ""], ["a", "a", "a"]])
def test_without_two_domains_there_is_none_to_lose(domains: list[str]) -> None:
    assert after_domain_loss(column(1, 1, 1), column(2, 2, 2), domains) is None


@pytest.mark.parametrize("busiest", range(10))
def test_between_equals_it_is_the_busiest_whatever_rounding_says(busiest: int) -> None:
    load = column(*(2.0 if number == busiest else 1.0 for number in range(10)))
    assert after_loss(load, column(*[0.1] * 10))[1] == busiest


def test_the_resource_that_runs_out_first_counts() -> None:
    load = np.array([[10.0, 80], [10, 80], [10, 20]])
    capacity = np.array([[100.0, 100], [100, 100], [100, 200]])
    # 30 of 200 and 180 of 300; without the third 180 of 200.
    assert after_each_loss(load, capacity) == pytest.approx([0.6, 0.6, 0.9])
    assert after_loss(load, capacity)[1] == 2


def test_a_resource_without_a_limit_is_never_full() -> None:
    load, capacity = column(10, 20, 30), column(np.inf, 100, np.inf)
    assert after_each_loss(load, capacity) == pytest.approx([0.0, 0.0, 0.0])
    capacity = column(np.inf, 100, 100)
    assert after_each_loss(load, capacity) == pytest.approx([0.3, 0.0, 0.0])


def test_a_single_broker_has_no_headroom_for_its_loss() -> None:
    assert after_loss(column(1), column(100)) == (np.inf, 0)
    assert not has_headroom(column(1), column(100))
    assert has_headroom(column(0), column(100))
    assert not has_headroom(column(1, 0), column(100, 0))
    empty = np.zeros((0, 2))
    assert len(after_each_loss(empty, empty)) == 0
    assert not has_headroom(empty, empty)
    with pytest.raises(ValueError, match="nobody can be lost"):
        after_loss(empty, empty)


def test_a_broker_that_has_nearly_everything_leaves_no_rounding_behind() -> None:
    load, capacity = column(1, 1, 1), column(1e17, 3, 3)
    assert after_loss(load, capacity) == pytest.approx((0.5, 0))


@pytest.mark.parametrize(
    ("load", "limit_ratio", "text"),
    [
        (
            (60, 90, 50, 40),
            0.85,
            (
                "without b1 the usage of the other 3 is 80.0% at best, the limit is 85.0%: "
                "the load may grow by 6.2%"
            ),
        ),
        (
            (60, 60),
            1.2,
            (
                "without b0 the usage of the other 1 is 120.0% at best, the limit is 120.0%: "
                "the load may grow by 0.0%"
            ),
        ),
        (
            (60, 90, 70, 80),
            0.8,
            (
                "without b1 the usage of the other 3 is 100.0% at best, the limit is 80.0%: "
                "20.0% of the load is too much"
            ),
        ),
        (
            (0, 0),
            0.85,
            "without b0 the usage of the other 1 is 0.0% at best, the limit is 85.0%",
        ),
        ((5,), 0.85, "without b0 nobody could carry the load"),
        ((), 0.85, "no broker is there"),
    ],
)
def test_the_text_says_how_far_the_load_is_from_the_limit(
    load: tuple[float, ...], limit_ratio: float, text: str
) -> None:
    names = [f"b{number}" for number in range(len(load))]
    capacity = column(*[100.0] * len(load))
    assert headroom_text(names, column(*load), capacity, limit_ratio) == text


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Floats, Floats]:
    shape = (draw(st.integers(2, 8)), draw(st.integers(1, 3)))
    load = draw(arrays(np.float64, shape, elements=st.integers(0, 1000).map(float)))
    capacity = draw(arrays(np.float64, shape, elements=st.integers(1, 1000).map(float)))
    return load, capacity


@given(clusters())
def test_no_placement_on_the_survivors_is_better(cluster: tuple[Floats, Floats]) -> None:
    load, capacity = cluster
    after = after_each_loss(load, capacity)
    shares = np.random.default_rng(1).dirichlet(np.ones(len(load) - 1), size=20)
    for dead in range(len(load)):
        left = np.delete(capacity, dead, axis=0)
        total = load.sum(axis=0)
        for share in shares:
            placed = share[:, None] * total
            assert usage_of(placed, left).max() >= after[dead] - 1e-9
        # In proportion to capacity it is just as good as the bound.
        best = total * left / left.sum(axis=0)
        assert usage_of(best, left).max() == pytest.approx(after[dead])


@given(clusters())
def test_the_worst_loss_is_the_highest_and_the_limit_is_kept_by_all(
    cluster: tuple[Floats, Floats],
) -> None:
    load, capacity = cluster
    usage, index = after_loss(load, capacity)
    after = after_each_loss(load, capacity)
    assert usage == after[index] == pytest.approx(after.max())
    assert has_headroom(load, capacity, usage)
    assert not has_headroom(load, capacity, usage - 1e-6)


@given(clusters(), st.integers(0, 7))
def test_to_carry_the_load_elsewhere_changes_nothing_and_a_broker_more_is_never_worse(
    cluster: tuple[Floats, Floats], number: int
) -> None:
    load, capacity = cluster
    carried = np.roll(load, number, axis=0)
    assert after_each_loss(carried, capacity) == pytest.approx(after_each_loss(load, capacity))
    more = np.concatenate([capacity, capacity[:1]])
    idle = np.concatenate([load, np.zeros_like(load[:1])])
    assert (after_each_loss(idle, more)[:-1] <= after_each_loss(load, capacity) + 1e-9).all()
