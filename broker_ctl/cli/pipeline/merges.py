"""What ``compact`` and ``expire`` print."""

from typing import TYPE_CHECKING

from broker_ctl.cli.pipeline.spark import Engine
from broker_ctl.cli.runtime.output import echo_json, print_facts

if TYPE_CHECKING:
    from broker_ctl.pipeline.merging import Merged


def show(engine: Engine, merged: "list[Merged]") -> None:
    """Print totals of merges."""
    facts = {
        "merges": len(merged),
        "batches": sum(each.batches for each in merged),
        "rows": sum(each.rows for each in merged),
        "dropped": sum(each.dropped for each in merged),
    }
    if engine.is_json:
        echo_json(facts)
    else:
        print_facts("", facts)
