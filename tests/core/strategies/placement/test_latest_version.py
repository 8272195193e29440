from collections.abc import Sequence
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult, latest_version, version_of
from tests.support.clusters.views import BUNDLES, broker, cluster

ON = PlacementRules(prefers_later_versions=True)


def left(versions: Sequence[str], rules: PlacementRules = ON) -> FilterResult:
    reports = []
    for number, version in enumerate(versions):
        report = broker(f"b{number}", 0.1)
        reports.append(replace(report, load=replace(report.load, version=version)))
    view = cluster(reports)
    return latest_version(view, BUNDLES[0], tuple(view.brokers), rules)


def test_only_the_latest_version_stays() -> None:
    filtered = left(["4.0.9", "4.0.10", "4.0.10"])
    assert filtered.feasible == ("b1", "b2")
    assert filtered.rejected["b0"] == (Reason.VERSION, "is of 4.0.9, not of the latest version")


def test_one_version_that_cannot_be_read_leaves_nobody() -> None:
    filtered = left(["4.0.9", "UNKNOWN"])
    assert filtered.feasible == ()
    assert filtered.rejected["b0"].words == "cannot be compared: the version of b1 is 'UNKNOWN'"


def test_the_latest_version_is_an_option() -> None:
    assert left(["1", ""], PlacementRules()) == FilterResult(("b0", "b1"))
    assert left([]) == FilterResult(())


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("4.0.9", "4.0.10"),
        ("4.0.0-SNAPSHOT", "4.0.0"),
        ("4.0.0-rc.2", "4.0.0-rc.10"),
        ("4.0.0-candidate", "4.0.0-rc"),
        ("0.9", "0.10.dev1"),
        ("0.10.dev1", "0.10"),
        ("4.0.0-20260101", "4.0.0-20260820"),
        ("2.9.2", "v3.0"),
    ],
)
def test_versions_are_compared_by_their_numbers(older: str, newer: str) -> None:
    before, after = version_of(older), version_of(newer)
    assert before is not None
    assert after is not None
    assert before < after


def test_trailing_zeros_and_builds_make_no_difference() -> None:
    assert version_of("4.0") == version_of("4.0.0") == version_of("4.0.0+build.7")


@pytest.mark.parametrize("text", ["", "latest", "4.*", "4..1", "1" * 99, "1.2.3.4.5.6.7.8"])
def test_other_texts_are_not_versions(text: str) -> None:
    assert version_of(text) is None
