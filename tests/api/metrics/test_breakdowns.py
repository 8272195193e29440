"""Our decisions in Pulsar's words; its lists stand here in full."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.api.metrics.bindings import CUT, MADE, from_zero, splits, unloads
from broker_ctl.core.cluster.decisions import Reason

UNLOADS = {
    *(("Success", word) for word in ("Overloaded", "Underloaded", "Admin", "Unknown")),
    *(
        ("Skip", word)
        for word in (
            "HitCount",
            "NoBundles",
            "CoolDown",
            "OutDatedData",
            "NoLoadData",
            "NoBrokers",
            "Unknown",
        )
    ),
    ("Failure", "Unknown"),
}
SPLITS = {
    *(("Success", word) for word in ("Topics", "Sessions", "MsgRate", "Bandwidth", "Admin")),
    ("Failure", "Unknown"),
}
KINDS = ("assign", "unload", "transfer", "split", "merge", "skip")
RESULTS = ("done", "failed", "dry_run", "paused", "skipped")
COUNTS = st.dictionaries(
    st.tuples(
        st.sampled_from(KINDS), st.sampled_from([*Reason]).map(str), st.sampled_from(RESULTS)
    ),
    st.integers(1, 1000),
)


def test_every_pair_is_there_before_anything_is_decided() -> None:
    assert unloads({}) == dict.fromkeys(UNLOADS, 0)
    assert splits({}) == dict.fromkeys(SPLITS, 0)


@pytest.mark.parametrize(
    ("decided", "counted"),
    [
        (("transfer", "overloaded", "done"), ("Success", "Overloaded")),
        (("transfer", "underloaded_receiver", "done"), ("Success", "Underloaded")),
        (("transfer", "admin", "done"), ("Success", "Admin")),
        (("transfer", "drain", "done"), ("Success", "Admin")),
        (("transfer", "new_part", "done"), ("Success", "Unknown")),
        (("transfer", "overloaded", "failed"), ("Failure", "Unknown")),
        (("transfer", "overloaded", "dry_run"), ("Skip", "Unknown")),
        (("transfer", "overloaded", "paused"), ("Skip", "Unknown")),
        (("skip", "below_threshold", "skipped"), ("Skip", "HitCount")),
        (("skip", "hit_count", "skipped"), ("Skip", "HitCount")),
        (("skip", "sole_bundle", "skipped"), ("Skip", "NoBundles")),
        (("skip", "in_grace", "skipped"), ("Skip", "CoolDown")),
        (("skip", "stale_report", "skipped"), ("Skip", "OutDatedData")),
        (("skip", "not_measured", "skipped"), ("Skip", "NoLoadData")),
        (("skip", "anti_affinity", "skipped"), ("Skip", "NoBrokers")),
        (("skip", "budget_cluster", "skipped"), ("Skip", "Unknown")),
    ],
)
def test_a_move_counts_by_what_came_of_it(
    decided: tuple[str, str, str], counted: tuple[str, str]
) -> None:
    assert unloads({decided: 3}) == dict.fromkeys(UNLOADS, 0) | {counted: 3}
    assert splits({decided: 3}) == dict.fromkeys(SPLITS, 0)


@pytest.mark.parametrize(
    ("decided", "counted"),
    [
        (("split", "topics", "done"), ("Success", "Topics")),
        (("split", "sessions", "done"), ("Success", "Sessions")),
        (("split", "msg_rate", "done"), ("Success", "MsgRate")),
        (("split", "bandwidth", "done"), ("Success", "Bandwidth")),
        (("split", "admin", "done"), ("Success", "Admin")),
        (("split", "bandwidth", "failed"), ("Failure", "Unknown")),
    ],
)
def test_a_split_counts_by_what_came_of_it(
    decided: tuple[str, str, str], counted: tuple[str, str]
) -> None:
    assert splits({decided: 3}) == dict.fromkeys(SPLITS, 0) | {counted: 3}
    assert unloads({decided: 3}) == dict.fromkeys(UNLOADS, 0)


@pytest.mark.parametrize("reason", ["too_few_topics", "indivisible", "max_bundles", "min_bundles"])
def test_a_split_or_merge_that_was_skipped_is_not_a_move(reason: str) -> None:
    assert unloads({("skip", reason, "skipped"): 3}) == dict.fromkeys(UNLOADS, 0)


@given(COUNTS)
def test_moves_that_were_decided_are_all_counted_under_a_known_pair(
    counts: dict[tuple[str, str, str], int],
) -> None:
    counted = unloads({key: count for key, count in counts.items() if key[0] == "transfer"})
    assert counted.keys() == UNLOADS
    assert sum(counted.values()) == sum(n for (kind, *_), n in counts.items() if kind == "transfer")
    assert unloads(counts).keys() == UNLOADS


def test_what_may_be_carried_out_is_counted_from_zero() -> None:
    begun = from_zero({})
    assert set(begun.values()) == {0}
    assert {kind for kind, _, _ in begun} == {"assign", "transfer", "split", "merge"}
    for result in ("done", "failed"):
        assert {("transfer", str(reason), result) for reason in MADE} <= begun.keys()
        assert {("split", str(reason), result) for reason in CUT} <= begun.keys()


@given(COUNTS)
def test_what_was_counted_stays(counts: dict[tuple[str, str, str], int]) -> None:
    found = from_zero(counts)
    assert {key: found[key] for key in counts} == counts
    assert sum(found.values()) == sum(counts.values())
