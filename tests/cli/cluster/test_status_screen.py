"""`status --watch` on a terminal of 24 lines."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from broker_ctl.cli.status_screen import render

NEWEST = "skip public/default/0x00000000_0x40000000: too few topics: fewer than 2"


def lines_of(seen: dict[str, Any], height: int) -> list[str]:
    text = StringIO()
    Console(file=text, width=80, height=height, force_terminal=True, color_system=None).print(
        render(seen, height)
    )
    return text.getvalue().splitlines()


def cluster(brokers: int, bundles: int, decisions: int) -> dict[str, Any]:
    rates = {"msg_per_s": 10.0, "throughput_bytes_per_s": 2e6}
    older = [{"result": "done", "sentence": f"older {number}"} for number in range(decisions - 1)]
    return {
        "leader": "b-0:1",
        "epoch": 3,
        "cycle": 7,
        "taken_at_ms": 0,
        "usage_imbalance": None,
        "brokers": [
            {"broker": f"b-{n}:1", "usage_ratio": n / 100, "is_draining": False, "bundles": 1}
            | rates
            for n in range(brokers)
        ],
        "bundles": [
            {"bundle": f"t/n/{n}", "owner": None, "topics": 1, **rates} for n in range(bundles)
        ],
        "decisions": [{"result": "skipped", "sentence": NEWEST}, *older],
        "moves": [],
        "paused": True,
        "dry_run": False,
        "splits": 4,
        "unloads": 5,
    }


@pytest.mark.parametrize("brokers", [1, 3, 8, 60])
@pytest.mark.parametrize("height", [24, 50])
def test_brokers_and_the_newest_decision_of_a_cluster_are_in_view(
    brokers: int, height: int
) -> None:
    lines = lines_of(cluster(brokers, 300, 50), height)
    assert len(lines) < height
    assert any("epoch 3, cycle 7, imbalance -" in line for line in lines)
    # The fullest one.
    assert any(f"b-{brokers - 1}:1" in line for line in lines)
    assert any(
        line.split()[:2] == ["skipped", "public/default/0x00000000_0x40000000:"] for line in lines
    )
    assert any("paused: the leader acts only on request   4 splits" in line for line in lines)


def test_the_first_surge_is_named_and_the_others_are_counted() -> None:
    rows = [{"subject": subject} for subject in ("orders", "orders/eu/0x00000000_0x40000000")]
    lines = lines_of(cluster(1, 3, 1) | {"paused": False, "surges": rows}, 24)
    assert any(line.startswith("surge of orders and 1 more   4 splits") for line in lines)


def test_a_bundle_with_a_hot_topic_is_named() -> None:
    state = cluster(1, 3, 1) | {"paused": False, "hot_topics": [{"bundle": "orders/eu/0x00_0x40"}]}
    lines = lines_of(state, 24)
    assert any(line.startswith("hot topic in orders/eu/0x00_0x40   4 splits") for line in lines)


def test_brokers_beyond_limits_are_named_below_the_table() -> None:
    over = [{"broker": "b-1:1", "reason": "capacity", "detail": "x"}]
    seen = {**cluster(3, 0, 1), "paused": False, "over_limits": over, "is_full": False}
    lines = lines_of(seen, 24)
    assert any("beyond limits: b-1:1   4 splits" in line for line in lines)
    lines = lines_of({**seen, "is_full": True}, 24)
    assert any("all brokers are beyond their limits: no load moves" in line for line in lines)


def test_what_matters_of_a_broker_comes_before_its_bundles() -> None:
    decision = {"sentence": NEWEST}
    seen = {
        "broker": "b-1:1",
        "cluster": "east",
        "session": {"state": "connected", "epoch": 2, "lease_remaining_s": 4.25},
        "is_leader": True,
        "leader": {"broker": "b-1:1", "url": "http://b-1:1"},
        "is_stopping": False,
        "is_drained": True,
        "is_ready": False,
        "reason": "registering",
        "bundles": [{"bundle": f"t/n/{n}", "state": "owned", "token": n} for n in range(200)],
        "journal": [{"result": "skipped", "decision": decision}] * 50,
    }
    lines = lines_of(seen, 24)
    assert len(lines) == 23
    assert lines[0] == "b-1:1 of cluster east: not ready: registering, drained"
    assert lines[1] == "session connected, epoch 2, 4.2 s of the lease left"
    assert lines[2] == "leader b-1:1 (this broker)"
    assert "latest decisions" in lines
    assert "200 bundles" in lines


def test_what_was_done_comes_before_reasons_not_to_act_and_equal_reasons_are_one_line() -> None:
    def row(kind: str, result: str, subject: str, reason: str, **fields: str) -> dict[str, str]:
        sentence = f"{kind} {subject}: {reason.replace('_', ' ')}: d"
        return {"result": result, "sentence": sentence, "reason": reason, "detail": "d", **fields}

    hot = [row("skip", "skipped", f"t/n/0x{n}_0x{n + 1}", "hot_topic") for n in range(30)]
    moved = {"bundle": "t/n/0x1_0x2", "source": "b-1:1", "destination": "b-2:1"}
    done = row("transfer", "done", "t/n/0x1_0x2 from b-1:1 to b-2:1", "imbalance", **moved)
    split = row("split", "done", "t/n/0x5_0x6 of b-1:1", "broker_share")
    lines = lines_of(cluster(3, 4, 1) | {"decisions": [*hot, done, split]}, 24)
    words = [" ".join(line.split()) for line in lines]
    shown = words[words.index("last decisions") + 1 :]
    assert shown[:3] == [
        "done imbalance: 0x1_0x2 b-1:1 -> b-2:1: d",
        "done broker share: split 0x5_0x6 of b-1:1: d",
        "skipped hot topic (30): 0x0_0x1: d",
    ]
