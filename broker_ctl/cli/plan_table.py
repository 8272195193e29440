"""A plan as a person reads it: what moves, what it reaches, what is left and why."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from broker_ctl.cli.tables import print_table

_COLUMNS: Final = ("what", "load", "source", "destination", "why")
_PLAN_COLUMNS: Final = ("plan", "state", "done", "waiting", "obsolete", "failed", "by", "note")


def print_plan(plan: Mapping[str, Any]) -> None:
    """Decisions, then the figures of the whole."""
    if plan["decisions"]:
        print_table("", _COLUMNS, map(_decision_cells, plan["decisions"]))
    print_table(f"plan {plan['id']}", ("", ""), _figures(plan))
    if plan["skipped_by_reason"]:
        rows = sorted(plan["skipped_by_reason"].items(), key=lambda item: (-item[1], item[0]))
        print_table("left as it is", ("why", "how many"), rows)
    for skip in plan.get("skipped", ()):
        click.echo(skip["sentence"])


def print_plans(rows: Sequence[Mapping[str, Any]]) -> None:
    """Approved plans, one line each."""
    names = ("id", "state", "done", "waiting", "obsolete", "failed", "by", "note")
    print_table("", _PLAN_COLUMNS, ([row[name] for name in names] for row in rows))


def _figures(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    from broker_ctl.core.footprint import throughput_text

    moved = throughput_text(plan["load_moved_bytes"])
    return [
        ("max over mean usage", _change(plan, "usage_imbalance", ".2f")),
        ("max over mean throughput", _change(plan, "throughput_imbalance", ".2f")),
        ("moves", str(plan["moves"])),
        ("load moved", f"{moved}, {plan['load_moved_ratio']:.2%} of the cluster's"),
        ("held back", plan["held_back"].replace("_", " ")),
    ]


def _decision_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    from broker_ctl.core.footprint import throughput_text

    why = f"{row['reason'].replace('_', ' ')}: {row['detail']}"
    if row["kind"] != "transfer":
        subject = row.get("bundle") or f"{row['left']} and {row['right']}"
        return (
            f"{row['kind']} {subject}",
            "",
            row.get("owner", ""),
            row.get("destination", ""),
            why,
        )
    return (
        f"transfer {row['bundle']}",
        throughput_text(row["throughput_bytes"]),
        f"{row['source']} {_change(row, 'source_usage', '.1%')}",
        f"{row['destination']} {_change(row, 'destination_usage', '.1%')}",
        why,
    )


def _change(row: Mapping[str, Any], name: str, form: str) -> str:
    return f"{row[f'{name}_before']:{form}} -> {row[f'{name}_after']:{form}}"
