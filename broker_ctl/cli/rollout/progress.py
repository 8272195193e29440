"""Shows how far a rollout is."""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.cli.runtime.output import echo, print_table
from broker_ctl.cli.runtime.target import Target
from broker_ctl.cli.runtime.units import duration_text, time_text

_COLUMNS: Final = ("broker", "state", "since", "waits for")


class Progress:
    """One line on stderr for each change of a broker; nothing with --output json."""

    def __init__(self, target: Target) -> None:
        self._is_silent = target.is_json
        self._shown: dict[str, tuple[str, str]] = {}

    def show(self, row: Mapping[str, Any]) -> None:
        """Show what has changed since the last call."""
        if self._is_silent:
            return
        left = len(row["brokers"]) - row["restarted"]
        for broker in row["brokers"]:
            seen = broker["state"], broker["detail"]
            if self._shown.get(broker["broker"], ("waiting", "")) == seen:
                continue
            self._shown[broker["broker"]] = seen
            why = f": {broker['detail']}" if broker["detail"] else ""
            eta = f"{left} to go, ETA {duration_text(row['eta_s'])}"
            echo(f"{broker['broker']} {broker['state']}{why}  ({eta})", err=True)


def print_rollout(row: Mapping[str, Any]) -> None:
    """Print a rollout with its brokers."""
    note = f": {row['note']}" if row["note"] else ""
    echo(
        f"rollout {row['id']} is {row['state']}{note}; {row['restarted']} of "
        f"{len(row['brokers'])} restarted, {row['moves']} moves, at least {row['least_moves']}, "
        f"ETA {duration_text(row['eta_s'])}"
    )
    print_table(
        "",
        _COLUMNS,
        (
            (
                broker["broker"],
                broker["state"],
                time_text(broker["changed_ms"]) if broker["changed_ms"] else "",
                broker["detail"],
            )
            for broker in row["brokers"]
        ),
    )
