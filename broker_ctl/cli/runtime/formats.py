"""``--output`` and ``--watch``: one option each, for every verb that shows something.

A verb distinguishes two cases only: a table of its own, and the JSON value of what it shows. YAML
and the wide table are other renderings of that value, so every verb with JSON has them.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_FORMAT: Final = "broker_ctl.output"
_MEANING: Final = "wide: a table of every field, in whole lines."


class Output(StrEnum):
    """Format of the output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def output_option(*, text: str = "", further: Sequence[str] = ()) -> Callable[[F], F]:
    """Add --output.

    Args:
        text: what the help says beside the meaning of the formats.
        further: formats that only this verb has.
    """

    def keep(ctx: click.Context, _: click.Parameter, value: str) -> str:
        ctx.meta[_FORMAT] = value
        return Output.JSON.value if value in {Output.WIDE, Output.YAML} else value

    return click.option(
        "--output",
        type=click.Choice([*(kind.value for kind in Output), *further]),
        default=Output.TABLE.value,
        show_default=True,
        callback=keep,
        help=f"{text} {_MEANING}".strip(),
    )


def chosen_format() -> Output:
    """The format in which the values of the verb that runs are shown; JSON outside of verbs."""
    context = click.get_current_context(silent=True)
    value = Output.JSON if context is None else context.meta.get(_FORMAT, Output.JSON)
    return Output(value) if value in {Output.WIDE, Output.YAML} else Output.JSON
