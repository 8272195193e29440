"""Progress on stderr; nothing with --output json."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from broker_ctl.cli.runtime.target import Target

_PERIOD_S: Final = 1.0


class Stage(NamedTuple):
    """Progress of an operation, with a description."""

    done: float
    total: float
    words: str


@contextmanager
def spinner(target: Target, sentence: str) -> Iterator[None]:
    """Show a spinner until the block ends."""
    from rich.console import Console

    if target.is_json:
        yield
        return
    with Console(stderr=True).status(sentence):
        yield


async def poll_until(
    target: Target,
    ask: Callable[[], Awaitable[Mapping[str, Any]]],
    stage_of: Callable[[Mapping[str, Any]], Stage],
    is_over: Callable[[Mapping[str, Any]], bool],
) -> Mapping[str, Any]:
    """Poll until ``is_over`` under a progress bar; return the last row.

    A failed request is repeated: a new leader may have to be elected first.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from broker_ctl.errors import HttpError

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), disable=target.is_json) as progress:
        bar = progress.add_task("")
        while True:
            try:
                row = await ask()
            except HttpError as error:
                progress.update(bar, description=str(error))
                await asyncio.sleep(_PERIOD_S)
                continue
            stage = stage_of(row)
            progress.update(bar, completed=stage.done, total=stage.total, description=stage.words)
            if is_over(row):
                return row
            await asyncio.sleep(_PERIOD_S)
