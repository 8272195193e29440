"""The highest token of every hash, against a model that remembers each admission."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, Bundle, BundleRange, Namespace
from broker_ctl.dataplane.bundles.bundle_table import RingTokens, TokenMap
from broker_ctl.errors import DataPlaneFenced

NAMESPACES = (Namespace("t", "a"), Namespace("t", "b"))
# Few boundaries, so that ranges touch and overlap often; both ends of the ring among them.
POINTS = (0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, RING_HIGH - 1, RING_HIGH)

spans = st.lists(st.sampled_from(POINTS), min_size=2, max_size=2, unique=True).map(
    lambda ends: BundleRange(min(ends), max(ends))
)
bundles = st.builds(Bundle, st.sampled_from(NAMESPACES), spans)
admissions = st.lists(st.tuples(bundles, st.integers(1, 9)), max_size=40)


@given(admissions, bundles)
def test_the_map_agrees_with_remembering_every_admission(
    calls: list[tuple[Bundle, int]], asked: Bundle
) -> None:
    token_map = TokenMap()
    admitted: list[tuple[Bundle, int]] = []
    for bundle, token in calls:
        highest = max((seen for other, seen in admitted if other.overlaps(bundle)), default=0)
        if token < highest:
            with pytest.raises(DataPlaneFenced):
                token_map.admit(bundle, token)
        else:
            token_map.admit(bundle, token)
            admitted.append((bundle, token))
    expected = max((seen for other, seen in admitted if other.overlaps(asked)), default=0)
    assert token_map.highest(asked) == expected


@given(st.lists(st.tuples(spans, st.integers(1, 9)), max_size=40), st.sampled_from(POINTS))
def test_raising_never_lowers_and_stays_small(
    calls: list[tuple[BundleRange, int]], position: int
) -> None:
    ring = RingTokens()
    for span, token in calls:
        ring.raise_to(span, token)
    at = next(
        t for s, t in reversed(list(zip(ring.starts, ring.tokens, strict=True))) if s <= position
    )
    assert at == max((token for span, token in calls if position in span), default=0)
    assert ring.starts == sorted(set(ring.starts))
    assert all(a != b for a, b in zip(ring.tokens, ring.tokens[1:], strict=False))
    assert len(ring) <= len(POINTS)


def test_splitting_and_merging_for_ever_needs_no_more_room() -> None:
    token_map = TokenMap()
    whole = Bundle(NAMESPACES[0], BundleRange(0, RING_HIGH))
    left, right = whole.cut((0x80000000,))
    for token in range(1, 1000, 2):
        token_map.admit(left, token)
        token_map.admit(right, token)
        token_map.admit(whole, token + 1)
        assert len(token_map) == 1


def test_a_refused_token_is_not_remembered() -> None:
    token_map = TokenMap()
    whole = Bundle(NAMESPACES[0], BundleRange(0, RING_HIGH))
    left, right = whole.cut((0x80000000,))
    token_map.admit(right, 5)
    with pytest.raises(DataPlaneFenced, match="token 4 is below 5"):
        token_map.admit(whole, 4)
    assert token_map.highest(left) == 0


def test_an_equal_token_is_not_stale() -> None:
    token_map = TokenMap()
    whole = Bundle(NAMESPACES[0], BundleRange(0, RING_HIGH))
    token_map.admit(whole, 5)
    token_map.admit(whole, 5)
    token_map.check(whole, 5)
