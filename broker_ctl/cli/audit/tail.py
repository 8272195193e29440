"""``broker-ctl audit tail``: the newest events of an audit log."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import click

from broker_ctl.cli.runtime.formats import Output, chosen_format, output_option
from broker_ctl.cli.runtime.output import echo, echo_json_line
from broker_ctl.cli.runtime.units import time_text
from broker_ctl.errors import CorruptRecord

_POLL_S: Final = 0.2
_EXAMPLES: Final = """\b
Examples:
  broker-ctl audit tail audit.log
  broker-ctl audit tail -n 100 audit.log --output json
  broker-ctl audit tail --follow audit.log
"""


@click.command("tail", short_help="Show the newest events of an audit log.", epilog=_EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    help="Number of events.",
)
@click.option("--follow", is_flag=True, help="Show new events too, until Ctrl-C.")
@output_option()
def command(file: Path, *, lines: int, follow: bool, output: str) -> None:
    """Show the newest events in FILE, oldest first.

    JSON output has one event a line. Events are shown as they are: audit verify checks them.
    """
    from broker_ctl.cli.audit.following import FollowedLog

    with closing(FollowedLog(file)) as log:
        for line in deque(log.new_lines(), maxlen=lines):
            _show(line, output)
        while follow:
            time.sleep(_POLL_S)
            for line in log.new_lines():
                _show(line, output)


def _show(line: bytes, output: str) -> None:
    from broker_ctl.codec import decode_object

    if output == "json" and chosen_format() is Output.JSON:
        echo(line.decode(errors="replace").rstrip("\n"))
        return
    try:
        event = decode_object(line)
        if output == "json":
            echo_json_line(event)
        else:
            echo(_text(event))
    except CorruptRecord:
        echo(f"not an event: {line.decode(errors='replace').rstrip()}")


def _text(event: Mapping[str, Any]) -> str:
    at_ms = event.get("at_ms")
    when = time_text(at_ms) if isinstance(at_ms, int) else "-"
    principal, address = event.get("principal", "anonymous"), event.get("address", "")
    words = (
        when,
        event.get("kind", ""),
        f"{principal}@{address}" if address else "",
        *(event.get(name, "") for name in ("operation", "target", "status")),
        f"lost {event['lost']}" if "lost" in event else "",
        event.get("reason", ""),
        *(f"{name}={event[name]}" for name in ("before", "after") if name in event),
    )
    return "  ".join(str(word) for word in words if word != "")
