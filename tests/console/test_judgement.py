"""The sentence of the first page."""

from typing import Any, Final

import pytest

from broker_ctl.console.pages.frame import LoadBand, bars_of
from broker_ctl.console.pages.judgement import JudgementLevel, KnownFacts, judge, needs_of

BAND: Final = LoadBand(1.04, 1.08)
STATUS: Final = {
    "broker": "b1:8080",
    "is_ready": True,
    "reason": "",
    "session": {"state": "connected", "epoch": 1, "lease_remaining_s": 4.0},
}
CALM: Final[dict[str, Any]] = {
    "usage_imbalance": 1.05,
    "lost_brokers": [],
    "over_limits": [],
    "is_full": False,
    "offline_bundles": 0,
    "offline_eta_s": None,
    "paused": False,
    "pause_reason": "",
    "dry_run": False,
    "moves": [],
}
DRAIN: Final = {"broker": "b2:8080", "state": "draining", "bundles_left": 3, "eta_s": 90.0}
CONTROLLER: Final = {"offline": 0, "under_min_isr": 0, "under_replicated": 2, "rack_violations": 0}


@pytest.mark.parametrize(
    ("state", "servers", "lacks"),
    [
        ("suspended", "zk1:2181", True),
        ("lost", "zk1:2181", True),
        ("connected", "zk1:2181", False),
        # The daemon's own status could not be read, or it has no ZooKeeper.
        ("unknown", "zk1:2181", False),
        ("lost", "", False),
    ],
)
def test_zookeeper_is_away_only_where_that_is_known(
    state: str, servers: str, *, lacks: bool
) -> None:
    status = {**STATUS, "session": {"state": state}}
    known = KnownFacts(CALM, status, zookeeper=servers)
    assert known.lacks_session == lacks
    said = [need.sentence for need in needs_of(known)]
    now, then = f"The ZooKeeper session of b1:8080 is {state}.", "broker-ctl zookeeper status"
    assert said == [f"{now} Next: {then} zk1:2181"] * lacks


@pytest.mark.parametrize(
    ("changed", "level", "part"),
    [
        ({}, JudgementLevel.WELL, "Balanced: the fullest broker has 1.05"),
        ({"usage_imbalance": 1.3}, JudgementLevel.ATTENTION, "Uneven: the fullest broker has 1.30"),
        ({"usage_imbalance": None}, JudgementLevel.BUSY, "waits for the first load reports"),
        ({"moves": [{}]}, JudgementLevel.BUSY, "1 move in flight"),
        ({"paused": True, "pause_reason": "upgrade"}, JudgementLevel.ATTENTION, "paused: upgrade."),
        ({"dry_run": True}, JudgementLevel.ATTENTION, "dry run"),
        ({"lost_brokers": ["b3:8080"]}, JudgementLevel.DANGER, "1 broker lost: b3:8080."),
        ({"is_full": True}, JudgementLevel.DANGER, "All brokers are beyond their limits"),
        (
            {"over_limits": [{"broker": "b1:1", "reason": "capacity", "detail": "x"}]},
            JudgementLevel.ATTENTION,
            "1 broker beyond limits: b1:1.",
        ),
        (
            {"offline_bundles": 2, "offline_eta_s": 4.0},
            JudgementLevel.DANGER,
            "2 bundles have no owner",
        ),
    ],
)
def test_the_most_urgent_thing_is_the_judgement(
    changed: dict[str, Any], level: JudgementLevel, part: str
) -> None:
    judgement = judge(KnownFacts({**CALM, **changed}, STATUS), BAND)
    assert judgement.level is level
    assert part in judgement.sentence


def test_without_a_leader_that_is_the_judgement() -> None:
    judgement = judge(KnownFacts(None, STATUS), BAND)
    assert judgement.level is JudgementLevel.DANGER
    assert "No leader can be asked" in judgement.sentence


def test_needs_are_listed_with_the_most_urgent_first() -> None:
    cluster = {**CALM, "paused": True, "lost_brokers": ["b3:8080"]}
    needs = needs_of(KnownFacts(cluster, STATUS, [DRAIN], CONTROLLER))
    assert [need.level for need in needs] == [
        JudgementLevel.DANGER,
        JudgementLevel.ATTENTION,
        JudgementLevel.ATTENTION,
        JudgementLevel.BUSY,
    ]
    assert "2 partitions under-replicated." in [need.sentence for need in needs]
    assert needs[-1].sentence == "Draining b2:8080: 3 bundles left, empty in about 1 min 30 s."


def test_bars_are_of_one_scale_with_the_band_around_their_mean() -> None:
    rows = [{"broker": f"b{n}", "usage_ratio": n / 10} for n in (1, 5)]
    bars = bars_of(rows, BAND)
    assert [bar.row["broker"] for bar in bars.bars] == ["b5", "b1"]
    assert [bar.verdict for bar in bars.bars] == ["above", "below"]
    assert bars.bars[0].length == pytest.approx(5 * bars.bars[1].length, abs=0.5)
    assert bars.mean < bars.low < bars.high < 1000
    assert bars.low == pytest.approx(bars.mean * 1.04, abs=0.1)


@pytest.mark.parametrize("usage", [0.0, 0.4])
def test_one_broker_and_idle_brokers_have_bars(usage: float) -> None:
    [bar] = bars_of([{"broker": "b", "usage_ratio": usage}], BAND).bars
    assert 0 <= bar.length <= 1000
    assert bars_of([], BAND).bars == ()
