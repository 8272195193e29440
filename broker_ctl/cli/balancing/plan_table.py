"""Tables of plans: decisions, predicted result, skipped bundles."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker_ctl.cli.balancing.reasons import reason_text
from broker_ctl.cli.runtime.output import echo, print_table
from broker_ctl.cli.runtime.units import percent_text

_COLUMNS: Final = ("what", "load", "source", "destination", "why")
_COUNTS: Final = ("done", "waiting", "obsolete", "failed")
_PLAN_COLUMNS: Final = ("plan", "state", *_COUNTS, "proposed by", "approved by", "note")
_PLAN_FIELDS: Final = ("id", "state", *_COUNTS, "proposed_by", "by", "note")


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print the decisions, then the predicted result and what was skipped."""
    if plan["decisions"]:
        print_table("", _COLUMNS, map(_decision_cells, plan["decisions"]))
    print_table(f"plan {plan['id']}", ("", ""), _figures(plan))
    if plan["skipped_by_reason"]:
        counts = sorted(plan["skipped_by_reason"].items(), key=lambda item: (-item[1], item[0]))
        print_table("skipped", ("why", "count"), ((reason_text(why), n) for why, n in counts))
    for skip in plan.get("skipped", ()):
        echo(skip["sentence"])


def print_plans(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of approved plans."""
    # A leader of the previous release does not name the proposer.
    print_table("", _PLAN_COLUMNS, ([row.get(name, "") for name in _PLAN_FIELDS] for row in rows))


def _figures(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    from broker_ctl.core.model.load_vector import throughput_text

    moved = throughput_text(plan["load_moved_bytes_per_s"])
    return [
        ("max over mean usage", _imbalance_change(plan, "usage_imbalance")),
        ("max over mean throughput", _imbalance_change(plan, "throughput_imbalance")),
        ("moves", str(plan["moves"])),
        ("load moved", f"{moved}, {plan['load_moved_ratio']:.2%} of the cluster's"),
        *(
            [("fullest broker on the way", order["text"])]
            if plan["moves"] and (order := plan.get("order"))
            else []
        ),
        ("held back", plan["held_back"].replace("_", " ")),
        *([("proposed by", by)] if (by := plan.get("proposed_by")) else []),
        *([("proposed because", why)] if (why := plan.get("proposal_reason")) else []),
        *([("digest", plan["digest"])] if "digest" in plan else []),
    ]


def _decision_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    from broker_ctl.core.model.load_vector import throughput_text

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
        throughput_text(row["throughput_bytes_per_s"]),
        f"{row['source']} {_change(row, 'source_usage')}",
        f"{row['destination']} {_change(row, 'destination_usage')}",
        why,
    )


def _change(row: Mapping[str, Any], name: str) -> str:
    before, after = row[f"{name}_before_ratio"], row[f"{name}_after_ratio"]
    return f"{percent_text(before)} -> {percent_text(after)}"


def _imbalance_change(plan: Mapping[str, Any], name: str) -> str:
    from broker_ctl.core.cluster.imbalance import imbalance_text

    return f"{imbalance_text(plan[f'{name}_before'])} -> {imbalance_text(plan[f'{name}_after'])}"
