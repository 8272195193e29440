"""What `broker-ctl attach` shows, on a terminal and without one."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from broker_ctl.cli.attach_runner import LineView, LiveView

BUNDLE = "public/default/0x00000000_0x15555555"
MOVE: dict[str, Any] = {
    "kind": "transfer",
    "bundle": BUNDLE,
    "source": "b1:8080",
    "destination": "b2:8080",
    "sentence": f"transfer {BUNDLE} from b1:8080 to b2:8080",
}
FINDING: dict[str, Any] = {
    "key": "loadBalancerSheddingEnabled",
    "value": "true",
    "why": "it unloads",
    "dynamic": True,
    "command": "pulsar-admin brokers update-dynamic-config",
}


def broker(broker_id: str, usage: float) -> dict[str, Any]:
    rates = {
        "msg_per_s": 1000.0,
        "throughput_bytes_per_s": 2.0 * 1024 * 1024,
        "bundles": 7,
        "age_s": 3.0,
    }
    return {
        "broker": broker_id,
        "usage_ratio": usage,
        "is_draining": False,
        "bundles": 7,
        "age_s": 3.0,
        **rates,
    }


def bundle(name: str) -> dict[str, Any]:
    rates = {"msg_per_s": 77.0, "throughput_bytes_per_s": 3.5 * 1024 * 1024, "topics": 12}
    return {"bundle": name, "owner": None, **rates}


def picture(at_s: int = 0, **changes: Any) -> Mapping[str, Any]:
    plan = {
        "id": "0123456789ab",
        "decisions": [MOVE],
        "moves": 1,
        "usage_imbalance_before": 1.5,
        "usage_imbalance_after": 1.1,
        "throughput_imbalance_before": 1.6,
        "throughput_imbalance_after": 1.2,
    }
    return {
        "at_ms": at_s * 1000,
        "cluster": "c",
        "url": "http://127.0.0.1:9",
        "console_url": None,
        "acts": True,
        "note": "",
        "held_back": "",
        "metadata_outdated": None,
        "stuck": [],
        "cluster_balancer": [],
        "usage_imbalance": 1.5,
        "throughput_imbalance": 1.6,
        "brokers": [broker("b1:8080", 0.5), broker("b2:8080", 0.25)],
        "bundles": [
            bundle(f"public/default/0x{low:x}0000000_0x{low + 1:x}0000000") for low in range(9)
        ],
        "bundle_count": 14,
        "misplaced_bundles": 0,
        "decisions": [],
        "plan": plan,
        **changes,
    }


def done(at_ms: int) -> dict[str, Any]:
    return {**MOVE, "at_ms": at_ms, "result": "done", "outcome": "", "took_s": 0.4}


def test_lines_show_changes_and_the_rest_once_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = LineView()

    def printed(seen: Mapping[str, Any]) -> list[str]:
        lines.show(seen)
        return [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]

    first = printed(picture())
    assert first == [
        (
            "cluster c: 2 brokers, 14 bundles with load data; max over mean usage 1.50, "
            "throughput 1.60"
        ),
        (
            "planned: 1 actions, 1 of them moves; max over mean usage 1.50 -> 1.10, "
            "throughput 1.60 -> 1.20"
        ),
        f"  {MOVE['sentence']}",
    ]
    assert printed(picture(2)) == []
    act = f"done in 0.40 s: {MOVE['sentence']}"
    assert printed(picture(4, decisions=[done(3000)])) == [act]
    newer = [done(5000), done(3000)]
    assert printed(picture(6, decisions=newer)) == [act]
    assert printed(picture(8, decisions=newer)) == []
    assert printed(picture(60, decisions=newer)) == first
    assert printed(picture(62, note="another one leads", plan=None)) == ["another one leads"]


def test_lines_show_why_nothing_is_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    LineView().show(picture(held_back="the cluster balances itself"))
    assert "held back: the cluster balances itself" in capsys.readouterr().out


def test_the_address_of_the_console_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineView()
    served: dict[str, Any] = {"console_url": "http://127.0.0.1:9/ui/"}
    view.show(picture(1, **served))
    view.show(picture(62, **served))
    assert capsys.readouterr().out.count("console: http://127.0.0.1:9/ui/") == 1
    out = StringIO()
    with LiveView(Console(file=out, force_terminal=True, width=160)) as live:
        live.show(picture(**served))
    assert "console: http://127.0.0.1:9/ui/" in out.getvalue()


def test_bundles_against_a_policy_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    LineView().show(picture())
    assert "policies" not in capsys.readouterr().out
    LineView().show(picture(misplaced_bundles=3))
    assert "; 3 bundles are on brokers that isolation policies" in capsys.readouterr().out


def test_a_migration_is_shown_in_full_and_once_also_where_nothing_is_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "the cluster migrates its metadata to oxia://o (phase COPYING): nothing is moved"
    migrating: dict[str, Any] = {
        "held_back": why,
        "metadata_outdated": {"cause": "migration", "why": why},
        "plan": {**picture()["plan"], "decisions": []},
    }
    view = LineView()
    view.show(picture(0, plan=migrating["plan"]))
    assert "held back" not in capsys.readouterr().out
    for at_s in (1, 2):
        view.show(picture(at_s, **migrating))
    assert capsys.readouterr().out.count(f"held back: {why}") == 1
    out = StringIO()
    with LiveView(Console(file=out, force_terminal=True, width=160)) as live:
        live.show(picture(**migrating))
    assert why in out.getvalue()


def test_a_stuck_bundle_is_shown_in_every_view(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"bundle": "t/n/0x0_0x1", "last_owner": "b1:8080", "for_s": 31.4}
    LineView().show(picture(stuck=[row]))
    text = "t/n/0x0_0x1 has had no owner for 31 s, since b1:8080 gave it up"
    assert text in capsys.readouterr().out
    out = StringIO()
    with LiveView(Console(file=out, force_terminal=True, width=160)) as live:
        live.show(picture(stuck=[row]))
    assert text in out.getvalue()


def test_the_live_table_shows_brokers_plan_and_what_is_in_the_way() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=160)
    with LiveView(console) as live:
        live.show(
            picture(cluster_balancer=[FINDING], decisions=[done(1)], held_back="so it is: why")
        )
    shown = out.getvalue()
    for text in ("b1:8080", "50.0%", "2.0", MOVE["sentence"], FINDING["command"], "so it is"):
        assert text in shown
    for text in ("the heaviest 8 of 14 bundles", "0x70000000_0x80000000", "none", "77", "3.50"):
        assert text in shown
    assert "0x80000000_0x90000000" not in shown
