"""What is recommended, as part of a broker.conf that a daemon reads."""

from pathlib import Path

import pytest

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.results import Named
from broker_ctl.pipeline.recommend.evidence import Findings, findings_of
from broker_ctl.pipeline.recommend.recommendation import Recommendation, fragment_of
from broker_ctl.settings.sources import parse, read
from tests.support.pipeline.backtest_rows import USUAL, Measured, comparisons, replays

TIGHT = Named(
    "settings", "loadBalancerPlannerHighPercentage=106 loadBalancerPlannerLowPercentage=102"
)
WIDE = Named("settings", "loadBalancerPlannerHighPercentage=120")
BALANCE, THRESHOLD = Named("balance", ""), Named("threshold", "")
SEEDS = 8


def measured(p99: float, moved: float = 2.0) -> list[Measured]:
    return [(p99 + seed / 100, moved, 0) for seed in range(SEEDS)]


def findings(trace: str, *tried: tuple[Named, list[Measured]]) -> Findings:
    rows = replays(trace, dict(tried))
    return findings_of(rows, comparisons(rows, tried[0][0]))


def test_the_lines_are_those_of_the_best_candidate_with_its_evidence(tmp_path: Path) -> None:
    found = Recommendation.of(
        findings(
            "diurnal",
            (USUAL, measured(1.2)),
            (TIGHT, measured(1.1, 1.5)),
            (WIDE, measured(1.4, 1.0)),
        )
    )
    text = fragment_of(found)
    assert text == (
        "# broker-ctl pipeline recommend: 1 of 2 candidates supported, held against settings with"
        " nothing set\n"
        "#   on diurnal.\n"
        "#\n"
        "# On diurnal, 8 pairs, 95 % intervals:\n"
        "#   p99 1.235 -> 1.135, difference -0.1 [-0.1, -0.1]\n"
        "#   load_moved_pct_per_h 2 -> 1.5, difference -0.5 [-0.5, -0.5]\n"
        "#   overload_broker_min 0 -> 0, difference +0 [+0, +0]\n"
        "# These lines were replayed together.\n"
        "loadBalancerPlannerHighPercentage=106\n"
        "loadBalancerPlannerLowPercentage=102\n"
        "#\n"
        "# not supported: settings with loadBalancerPlannerHighPercentage=120: worse on diurnal:"
        " p99 1.235 ->\n"
        "#   1.435, difference +0.2 [+0.2, +0.2]\n"
    )
    conf = tmp_path / "recommended.conf"
    conf.write_text(text)
    reading = read(conf, {}, [])
    assert (reading.problems, reading.unknown, reading.unused) == ((), (), ())
    planner = reading.settings.planner
    assert (planner.high_percent, planner.low_percent) == (106, 102)
    row = found.to_row()
    assert row["settings"] == {
        "loadBalancerPlannerHighPercentage": "106",
        "loadBalancerPlannerLowPercentage": "102",
    }
    assert (row["candidates"], row["chance_allowed"]) == (2, 0.0125)
    (supported,) = row["supported"]
    assert supported["evidence"][0]["pairs"] == SEEDS
    assert supported["evidence"][0]["chance"] == 2**-SEEDS
    assert [each["parameters"] for each in row["refused"]] == [WIDE.parameters]


def test_nothing_is_recommended_where_nothing_is_supported() -> None:
    found = Recommendation.of(findings("diurnal", (USUAL, measured(1.2)), (TIGHT, measured(1.2))))
    text = fragment_of(found)
    assert parse(text, "recommended.conf") == ([], [])
    assert "# No line is recommended: leave the settings as they are.\n" in text
    assert "no better on diurnal: p99 1.235 -> 1.235" in text
    assert found.to_row()["settings"] == {}


def test_a_policy_that_settings_make_is_named_by_its_strategies() -> None:
    found = Recommendation.of(
        findings("diurnal", (THRESHOLD, measured(1.5)), (BALANCE, measured(1.1)))
    )
    assert found.entries(found.supported[0]) == (
        ("loadBalancerLoadPlacementStrategy", "balance"),
        ("loadBalancerLoadSheddingStrategy", "balance"),
    )
    assert "# All other settings were as they come.\n" in fragment_of(found)


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (THRESHOLD, "threshold was replayed as Pulsar runs it, without the limits"),
        (Named("settings", "noSuchKeyAtAll=1"), "does not take it: noSuchKeyAtAll: no setting"),
        (
            Named("settings", "loadBalancerPlannerHighPercentage=high"),
            "this release does not take it: the back-test: loadBalancerPlannerHighPercentage=high",
        ),
        (BALANCE, "it is the settings as they come"),
    ],
)
def test_what_no_settings_make_is_not_recommended(candidate: Named, why: str) -> None:
    baseline = BALANCE if candidate != BALANCE else Named("balance", "x=1")
    found = Recommendation.of(
        findings("diurnal", (baseline, measured(1.5)), (candidate, measured(1.1)))
    )
    assert found.supported == ()
    assert why in found.refused[0].refusal
    assert parse(fragment_of(found), "recommended.conf") == ([], [])


def test_a_name_from_outside_sets_nothing() -> None:
    hostile = "east\nclusterName=taken\\"
    found = Recommendation.of(
        findings(hostile, (USUAL, measured(1.2)), (WIDE, measured(1.1)), (TIGHT, measured(1.3)))
    )
    text = fragment_of(found)
    entries, problems = parse(text, "recommended.conf")
    assert [(each.key, each.value) for each in entries] == [
        ("loadBalancerPlannerHighPercentage", "120")
    ]
    assert problems == []


def test_a_recorded_day_that_was_only_once_supports_nothing() -> None:
    hostile = "cluster:east\nclusterName=taken\\"
    found = Recommendation.of(findings(hostile, (USUAL, measured(1.2)), (WIDE, measured(1.1))))
    assert parse(fragment_of(found), "recommended.conf") == ([], [])


def test_many_others_are_counted() -> None:
    tried = [
        (Named("settings", f"loadBalancerPlannerHighPercentage={110 + number}"), measured(1.2))
        for number in range(13)
    ]
    text = fragment_of(Recommendation.of(findings("diurnal", (USUAL, measured(1.2)), *tried)))
    assert text.count("# not supported: ") == 10
    assert "# and 3 more: --output json lists all.\n" in text


def test_only_traces_that_were_named_count() -> None:
    rows = [
        *replays("diurnal", {USUAL: measured(1.2), WIDE: measured(1.1)}),
        *replays("steady", {USUAL: measured(1.2), WIDE: measured(1.3)}),
    ]
    found = findings_of(rows, comparisons(rows))
    assert Recommendation.of(found).supported == ()
    (best,) = Recommendation.of(found, ["diurnal"]).supported
    assert best.candidate == WIDE
    assert {each.row.trace for each in best.evidence} == {"diurnal"}
    with pytest.raises(PipelineError, match="no trace 'giant': one of diurnal, steady"):
        Recommendation.of(found, ["giant"])


def test_replays_that_are_not_those_of_the_comparison_are_refused() -> None:
    rows = replays("diurnal", {USUAL: measured(1.2), WIDE: measured(1.1)})
    compared = comparisons(rows)
    with pytest.raises(ValueError, match=r"8 pairs of settings .* were compared, 7 replayed"):
        findings_of(rows[:-1], compared)
    other = comparisons(rows, WIDE)
    with pytest.raises(ValueError, match="2 baselines"):
        findings_of(rows, [*compared, *other])
