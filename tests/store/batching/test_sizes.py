from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.store.batching.entries import ReplySizes


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=300))
def test_an_estimate_stays_between_nothing_and_twice_the_largest_ever_seen(
    sizes: list[int],
) -> None:
    kind = ReplySizes().kind("/a/b")
    bound = max([*sizes, 4096])
    for size in sizes:
        kind.observe(size)
        assert 0 <= kind.mean_bytes <= bound
        assert 0 <= kind.likely_bytes <= 2 * bound


@given(size=st.integers(0, 1 << 20))
def test_of_nodes_that_are_all_alike_the_estimate_comes_close(size: int) -> None:
    kind = ReplySizes().kind("/a/b")
    for _ in range(400):
        kind.observe(size)
    assert abs(kind.likely_bytes - size) <= 0.01 * size + 16


@given(st.lists(st.integers(1, 50_000), min_size=200, max_size=200), st.randoms())
def test_a_batch_of_one_kind_is_seldom_larger_than_it_was_counted(
    sizes: list[int], rng: object
) -> None:
    kind = ReplySizes().kind("/a/b")
    for size in sizes * 2:
        kind.observe(size)
    batch = sizes[-64:]
    # A batch is filled to half of a frame.
    assert sum(batch) <= 2 * len(batch) * kind.likely_bytes


def test_kinds_differ_by_their_first_component_and_depth() -> None:
    sizes = ReplySizes()
    large = sizes.kind("/namespace/t/n")
    assert sizes.kind("/namespace/u/m") is large
    assert sizes.kind("/namespace/u/m/b") is not large
    assert sizes.kind("/loadbalance/t/n") is not large


def test_the_kinds_are_bounded() -> None:
    sizes = ReplySizes()
    kinds = {id(sizes.kind(f"/{number}/x")) for number in range(10_000)}
    assert len(kinds) <= 513
    assert len(sizes._kinds) <= 513
