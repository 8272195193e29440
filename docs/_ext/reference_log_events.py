"""The events of JSON logs as a page, from the table that names them."""

from broker_ctl.daemon.lifecycle.logs import EVENTS
from docs._ext.markdown import code, escape, table


def page() -> str:
    """Each event with its fields and today's sentence."""
    rows = [
        [
            code(event.name),
            ", ".join(map(code, event.fields)) or "-",
            escape(event.sentence),
            code(f"broker_ctl.{event.module}"),
        ]
        for event in EVENTS
    ]
    return table(["Event", "Fields", "Sentence in this release", "Logger"], rows)
