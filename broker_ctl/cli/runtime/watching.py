"""``--watch``: a verb that only shows something shows it again and again, until Ctrl-C."""

import functools
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.formats import Output, chosen_format
from broker_ctl.cli.runtime.output import echo
from broker_ctl.errors import BrokerCtlError

F = TypeVar("F", bound=Callable[..., Any])

_SCREEN: Final = "broker_ctl.screen"
_PERIOD_S: Final = 2.0
# Parameters of verbs that change something or write a file.
_ACTING: Final = frozenset({"yes", "out"})
# Those of verbs that ask a daemon for something to show.
_ASKING: Final = frozenset({"url", "token_file", "tls_cert", "output"})


def offer_watch(command: click.Command) -> None:
    """Add --watch to a command that asks a daemon and changes nothing."""
    names = {parameter.name for parameter in command.params}
    if names >= _ASKING and not names & (_ACTING | {"watch"}):
        assert command.callback is not None
        command.callback = _repeated(command.callback)
        command.params += _options()


def watch_option(verb: F) -> F:
    """Add --watch to a verb for which `offer_watch` does not; one that acts then only shows."""
    decorated: Any = _repeated(verb)
    for option in reversed(_options()):
        decorated.__click_params__ = [*getattr(decorated, "__click_params__", []), option]
    shown: F = decorated
    return shown


def is_on_screen() -> bool:
    """Whether the terminal is redrawn with what the verb that runs shows."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_SCREEN))


def refuse_acts() -> None:
    """Refuse to change something again and again.

    Raises:
        click.UsageError: the verb runs with --watch.
    """
    context = click.get_current_context(silent=True)
    if context is not None and _SCREEN in context.meta:
        raise click.UsageError("--watch only shows: leave it out to change something")


def _options() -> list[click.Option]:
    return [
        click.Option(
            ["-w", "--watch"], is_flag=True, help="Show it again and again, until Ctrl-C."
        ),
        click.Option(
            ["--interval", "interval_s"],
            type=click.FloatRange(0.1, 3600.0),
            metavar="SECONDS",
            default=_PERIOD_S,
            show_default=True,
            help="Pause between two rounds of --watch.",
        ),
    ]


def _repeated(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*args: Any, watch: bool, interval_s: float, **kwargs: Any) -> Any:
        show = functools.partial(callback, *args, **kwargs)
        if not watch:
            return show()
        with _interrupts() as came, suppress(KeyboardInterrupt):
            _repeat(show, interval_s, came)
        return None

    return run


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The signals of Ctrl-C that came so far, each of which also raises `KeyboardInterrupt`.

    Python drops an exception that is raised while it finalises an object, and asyncio a signal that
    comes with the end of a task. The list has those too.
    """
    came: list[int] = []

    def on_signal(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _repeat(show: Callable[[], Any], interval_s: float, came: list[int]) -> None:
    """Show it until Ctrl-C. Errors of the first round are raised, later ones are reported."""
    format_ = click.get_current_context().params.get("output", Output.TABLE)
    is_table = format_ == Output.TABLE or chosen_format() is Output.WIDE
    on_screen = _is_terminal() and is_table
    click.get_current_context().meta[_SCREEN] = on_screen
    _once(show, on_screen=on_screen)
    while not came:
        pause(interval_s)
        if came:
            return
        if chosen_format() is Output.YAML:
            click.echo("---")
        try:
            _once(show, on_screen=on_screen)
        except click.UsageError:
            raise
        except (BrokerCtlError, click.ClickException) as error:
            # The daemon, or its broker, may come back.
            text = error.message if isinstance(error, click.ClickException) else str(error)
            echo(text, err=True)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def pause(interval_s: float) -> None:
    """Wait for the next round."""
    time.sleep(interval_s)


class _Screen(io.StringIO):
    """What is shown next: the terminal is cleared once all of it is known."""

    def isatty(self) -> bool:
        """Colours and the width of the terminal are wanted."""
        return True


def _once(show: Callable[[], Any], *, on_screen: bool) -> None:
    # An exit code is about one round.
    ends = suppress(SystemExit, click.exceptions.Exit)
    if not on_screen:
        with ends:
            show()
        sys.stdout.flush()
        return
    screen = _Screen()
    with redirect_stdout(screen), ends:
        show()
    click.clear()
    click.echo(screen.getvalue(), nl=False, color=True)
