"""The screen of ``broker-ctl status --watch``, cut to the height of the terminal."""

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from broker_ctl.cli.quickstart.table import render_cluster
from broker_ctl.cli.runtime.output import sentence_of
from broker_ctl.cli.runtime.units import duration_text, time_text

_MOST_DECISIONS: Final = 8


def render(state: Mapping[str, Any], height: int) -> RenderableType:
    """The state of a broker or of the cluster, in fewer lines than the terminal has."""
    if "journal" in state:
        return _broker(state, height)
    return render_cluster(dict(state), [_line(_cluster_foot(state))], height)


def _cluster_foot(state: Mapping[str, Any]) -> str:
    states = [word for word in ("paused", "dry_run") if state.get(word)]
    why = state.get("pause_reason") or "the leader acts only on request"
    held = f"{' and '.join(states).replace('_', ' ')}: {why}   "
    return (
        f"{held if states else ''}{_offline(state)}{_over_limits(state)}{_surging(state)}"
        f"{_hot(state)}"
        f"{state['splits']} splits, {state['unloads']} unloads, "
        f"{len(state['moves'])} moves in flight; as of {time_text(state['taken_at_ms'])}"
    )


def _offline(state: Mapping[str, Any]) -> str:
    """Bundles of lost brokers that have not been placed yet."""
    if not state.get("offline_bundles"):
        return ""
    eta = duration_text(state["offline_eta_s"])
    return f"{state['offline_bundles']} bundles of lost brokers are not served (ETA {eta})   "


def _surging(state: Mapping[str, Any]) -> str:
    """Bundles and tenants whose traffic has just grown many times."""
    # A leader of the previous release does not list them.
    subjects = [row["subject"] for row in state.get("surges", ())]
    more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
    return f"surge of {subjects[0]}{more}   " if subjects else ""


def _hot(state: Mapping[str, Any]) -> str:
    """Bundles that one topic makes too large."""
    bundles = [row["bundle"] for row in state.get("hot_topics", ())]
    more = f" and {len(bundles) - 1} more" if len(bundles) > 1 else ""
    return f"hot topic in {bundles[0]}{more}   " if bundles else ""


def _over_limits(state: Mapping[str, Any]) -> str:
    """Brokers beyond limits of operators."""
    if state.get("is_full"):
        return "all brokers are beyond their limits: no load moves, add brokers   "
    names = ", ".join(row["broker"] for row in state.get("over_limits", ()))
    return f"beyond limits: {names}   " if names else ""


def _broker(state: Mapping[str, Any], height: int) -> RenderableType:
    session, leader = state["session"], state["leader"]
    ready = "ready" if state["is_ready"] else f"not ready: {state['reason']}"
    states = [word for word in ("stopping", "drained") if state.get(f"is_{word}")]
    lease = f"{duration_text(session['lease_remaining_s'])} of the lease left"
    lines = [
        f"{state['broker']} of cluster {state['cluster']}: {', '.join([ready, *states])}",
        f"session {session['state']}, epoch {session['epoch']}, {lease}",
        f"leader {'none' if leader is None else leader['broker']}"
        + (" (this broker)" if state["is_leader"] else ""),
    ]
    bundles = list(state.get("bundles", ()))
    decisions = [entry | entry["decision"] for entry in state["journal"]][:_MOST_DECISIONS]
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
