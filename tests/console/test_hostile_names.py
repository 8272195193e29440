"""What names and reasons may contain: the pages show it as text."""

from typing import Any, Final

from broker_ctl.console.pages.frame import Frame, LoadBand
from broker_ctl.console.pages.judgement import KnownFacts
from broker_ctl.console.pages.now import now_page
from broker_ctl.console.render import render
from tests.console.test_judgement import CALM, STATUS

HOSTILE: Final = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>{{7*7}}\u202e\x1b"
ROW: Final[dict[str, Any]] = {
    "kind": HOSTILE,
    "result": HOSTILE,
    "reason": HOSTILE,
    "sentence": HOSTILE,
    "outcome": HOSTILE,
    "at_ms": 1,
}
BROKER: Final[dict[str, Any]] = {
    "broker": HOSTILE,
    "usage_ratio": 0.4,
    "msg_per_s": 1.0,
    "throughput_bytes_per_s": 1.0,
    "bundles": 1,
    "is_draining": True,
}
MOVE: Final = {"bundle": HOSTILE, "from": HOSTILE, "to": HOSTILE, "deadline_ms": 1}


def test_no_name_becomes_markup_and_no_text_turns_around() -> None:
    cluster = CALM | {
        "leader": HOSTILE,
        "epoch": 1,
        "cycle": 1,
        "taken_at_ms": 1,
        "brokers": [BROKER],
        "bundle_count": 1,
        "moves": [MOVE],
        "decisions": [ROW, {**ROW, "kind": "skip"}],
        "pause_reason": HOSTILE,
        "paused": True,
        "lost_brokers": [HOSTILE],
        "splits": 0,
        "unloads": 0,
    }
    status = {**STATUS, "broker": HOSTILE, "is_ready": False, "reason": HOSTILE}
    frame = Frame("", HOSTILE, HOSTILE, HOSTILE, 1.0, HOSTILE, live="/ui/live")
    values = {
        "now": now_page(KnownFacts(cluster, status), LoadBand()),
        "status": status,
        "band": LoadBand(),
    }
    shown = {"title": HOSTILE, "body": "now.html", "part": "", "cluster": cluster, **values}
    page = render("page.html", frame=frame, **shown)
    assert page.count("&lt;script&gt;") > 10
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "{{7*7}}" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
