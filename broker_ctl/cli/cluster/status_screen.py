"""What ``broker-ctl status --watch`` draws: what matters, in a terminal's height."""

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from broker_ctl.cli.quickstart.table import drawn_cluster
from broker_ctl.cli.runtime.output import sentence_of
from broker_ctl.cli.runtime.units import duration_text, time_text

_MOST_DECISIONS: Final = 8


def drawn(seen: Mapping[str, Any], height: int) -> RenderableType:
    """A broker, or the cluster as its leader sees it, in fewer lines than the terminal has."""
    if "journal" in seen:
        return _broker(seen, height)
    return drawn_cluster(dict(seen), [_line(_cluster_foot(seen))], height)


def _cluster_foot(seen: Mapping[str, Any]) -> str:
    states = [word for word in ("paused", "dry_run") if seen.get(word)]
    held = f"{' and '.join(states).replace('_', ' ')}: the leader acts by order alone   "
    return (
        f"{held if states else ''}{seen['splits']} splits, {seen['unloads']} unloads, "
        f"{len(seen['moves'])} moves in flight; as of {time_text(seen['taken_at_ms'])}"
    )


def _broker(seen: Mapping[str, Any], height: int) -> RenderableType:
    session, leader = seen["session"], seen["leader"]
    ready = "ready" if seen["is_ready"] else f"not ready: {seen['reason']}"
    states = [word for word in ("stopping", "drained") if seen.get(f"is_{word}")]
    lease = f"{duration_text(session['lease_remaining_s'])} of the lease left"
    lines = [
        f"{seen['broker']} of cluster {seen['cluster']}: {', '.join([ready, *states])}",
        f"session {session['state']}, epoch {session['epoch']}, {lease}",
        f"leader {'nobody' if leader is None else leader['broker']}"
        + (" (this broker)" if seen["is_leader"] else ""),
    ]
    bundles = list(seen.get("bundles", ()))
    decisions = [entry | entry["decision"] for entry in seen["journal"]][:_MOST_DECISIONS]
    if decisions:
        lines += ["", "latest decisions"]
        lines += [f"  {row['result']}  {sentence_of(row)}" for row in decisions]
    # One line stays free: a terminal scrolls when its last one is written.
    room = height - 1 - len(lines) - 2
    if room > 0:
        lines += ["", f"{len(bundles)} bundles"]
        lines += [
            f"  {row['bundle']}  {row['state']}  token {row['token']}" for row in bundles[:room]
        ]
    return Group(*map(_line, lines[: height - 1]))


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")
