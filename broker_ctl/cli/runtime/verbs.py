"""Layout of --help, confirmations, ``--watch``, completion: what verbs share."""

import functools
import importlib
import io
import re
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from broker_ctl.cli.runtime.output import Output, chosen_format, echo, echo_json
from broker_ctl.cli.runtime.secret_files import ConnectionOption
from broker_ctl.cli.runtime.target import Target
from broker_ctl.core.model.safe_text import escape
from broker_ctl.errors import BrokerCtlError

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient
    from broker_ctl.http_client import HttpReply

# ``--watch``: a verb that only shows something shows it again and again, until Ctrl-C.


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


# Completion in a shell of names that are in the cluster: brokers, tenants, namespaces, bundles.
#
# A key press must not hang, and must not ask anything: one bounded attempt, with the address and
# the token that the command itself would use; no names where that fails.


_LIMIT_S: Final = 1.0
# Tenants whose namespaces are asked for, and names that are offered.
_MOST_TENANTS: Final = 20
_MOST_NAMES: Final = 200
_SLASHES_OF_BUNDLE: Final = 2
# A shell takes these characters as they are, and no such word for an option.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/=][A-Za-z0-9._:/=-]*")


class LiveName(StringParamType):
    """A text that is completed from the cluster; it is not checked against it."""

    def __init__(self, find: Callable[["DaemonClient", str], Awaitable[list[str]]]) -> None:
        self._find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin with what is typed; none if no daemon answers in time."""
        del param
        from broker_ctl.errors import BrokerCtlError

        try:
            names = _ask(ctx, self._find, incomplete)
        except (BrokerCtlError, click.ClickException, TimeoutError, OSError):
            return []
        fitting = sorted(
            name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)
        )
        return [CompletionItem(name) for name in fitting[:_MOST_NAMES]]


def complete_names(command: click.Command) -> None:
    """Complete the parameters of a command that are names of live things."""
    for parameter in command.params:
        find = _FINDERS.get(parameter.name or "")
        if find is not None and type(parameter.type) is StringParamType:
            parameter.type = LiveName(find)


def _ask(
    ctx: click.Context, find: Callable[["DaemonClient", str], Awaitable[list[str]]], typed: str
) -> list[str]:
    import asyncio

    from broker_ctl.cli.runtime.target import target_of

    target = target_of(ctx.params, ctx.meta, timeout_s=_LIMIT_S)

    async def bounded(client: "DaemonClient") -> list[str]:
        async with asyncio.timeout(_LIMIT_S):
            return await find(client, typed)

    return target.run(bounded)


async def _brokers(client: "DaemonClient", _: str) -> list[str]:
    return list(await client.get("/admin/v2/brokers"))


async def _tenants(client: "DaemonClient", _: str) -> list[str]:
    return list(await client.get("/admin/v2/tenants"))


async def _namespaces(client: "DaemonClient", typed: str) -> list[str]:
    tenant, slash, _ = typed.partition("/")
    tenants = [tenant] if slash else (await _tenants(client, ""))[:_MOST_TENANTS]
    found: list[str] = []
    for name in tenants:
        if name.startswith(tenant):
            found += await client.get(f"/admin/v2/namespaces/{name}")
    return found


async def _bundles(client: "DaemonClient", typed: str) -> list[str]:
    """The bundles of a namespace; before one is typed, namespaces with the slash that follows."""
    if typed.count("/") < _SLASHES_OF_BUNDLE:
        return [f"{name}/" for name in await _namespaces(client, typed)]
    namespace = typed.rpartition("/")[0]
    ring: Mapping[str, Any] = await client.get(f"/admin/v2/namespaces/{namespace}/bundles")
    edges = ring["boundaries"]
    return [f"{namespace}/{low}_{high}" for low, high in pairwise(edges)]


# By the name of the parameter.
_FINDERS: Final[Mapping[str, Callable[["DaemonClient", str], Awaitable[list[str]]]]] = {
    "broker": _brokers,
    "destination": _brokers,
    "tenant": _tenants,
    "namespace": _namespaces,
    "bundle": _bundles,
}


# Layout of --help: whole sentences, examples, exit codes.


# How a line of the examples begins.
EXAMPLE: Final = "  broker-ctl "
# Longer than any sentence: click cuts short helps at its limit.
_WHOLE: Final = 1_000
_EXIT_CODES: Final = """\b
Exit codes: 0 done, 1 refused or failed (reason on stderr), 2 wrong option or argument.
"""


class VerbCommand(click.Command):
    """A command whose help has the options of its connection in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's own options, then those of how a daemon is reached."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None:
                (shared if isinstance(parameter, ConnectionOption) else own).append(row)
        for title, rows in (("Options", own), ("Connection", shared)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class VerbGroup(click.Group):
    """A group whose list of commands shows whole sentences."""

    command_class: type[click.Command] | None = VerbCommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Wrap the lines that click would cut."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in found
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the exit codes."""
        super().format_epilog(ctx, formatter)
        write_exit_codes(self, formatter)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, with its own examples of those of the group, and with exit codes."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        if command.epilog and not isinstance(command, click.Group):
            _, _, group = ctx.command_path.partition(" ")
            command.epilog = own_examples(command.epilog, f"{group} {cmd_name}".strip())
        return finish_command(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word.

        Raises:
            click.UsageError: there is none; the message has those that are spelled like it.
        """
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            close = get_close_matches(word, self.list_commands(ctx))
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"No such command {word!r}.{hint}")
        return super().resolve_command(ctx, args)


class Verb(NamedTuple):
    """Where a command is, ``module:name``, and its line in the list of commands."""

    place: str
    summary: str


class ImportedVerbs(VerbGroup):
    """A group whose commands are imported when they are needed; its help needs none."""

    # Title of a section of the help -> name -> verb.
    places: ClassVar[Mapping[str, Mapping[str, Verb]]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of their sections."""
        return [*chain.from_iterable(self.places.values()), *super().list_commands(ctx)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the table."""
        del ctx
        for title, verbs in self.places.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.summary) for name, verb in verbs.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of a verb; None if there is no such verb."""
        verb = next((verbs[cmd_name] for verbs in self.places.values() if cmd_name in verbs), None)
        if verb is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = verb.place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        command.short_help = verb.summary
        return finish_command(command)


def own_examples(epilog: str, verb: str) -> str:
    """The epilog without the examples of other verbs; all of it if there is none of this verb."""
    kept: list[str] = []
    is_own, has_own = True, False
    for line in epilog.splitlines():
        if line.startswith(EXAMPLE):
            is_own = f"{line} ".startswith(f"{EXAMPLE}{verb} ")
            has_own |= is_own
        elif not line.startswith(" "):
            is_own = True
        # Otherwise a line that continues an example.
        if is_own:
            kept.append(line)
    return "\n".join(kept) if has_own else epilog


def finish_command(command: click.Command) -> click.Command:
    """Append exit codes to the help of a command; complete names in it; add what reads have."""
    complete_names(command)
    offer_watch(command)
    is_group = isinstance(command, click.Group)
    if not is_group and "xit code" not in f"{command.help} {command.epilog}":
        command.epilog = f"{command.epilog or ''}\n{_EXIT_CODES}"
    return command


def write_exit_codes(command: click.Command, formatter: click.HelpFormatter) -> None:
    """Write the common exit codes, unless the help has its own."""
    if "xit code" not in f"{command.help} {command.epilog}":
        formatter.write_paragraph()
        formatter.write_text(_EXIT_CODES.replace("\b\n", "").strip())


# Optional dependencies, which extras of the package install.


@contextmanager
def needing(extra: str, who: str) -> Iterator[None]:
    """Guard imports of packages that only an extra installs.

    Raises:
        ClickException: the extra is not installed; the message has the pip command.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise click.ClickException(
            f"{who} needs {name}, which is not installed: run: pip install 'broker-ctl[{extra}]'"
        ) from error


# Commands that change something: the daemon checks the request, then the operator confirms it.


_DRY_RUN: Final = {"dry_run": "true"}

V = TypeVar("V", bound=Callable[..., None])


def change_options(verb: V) -> V:
    """Add --dry-run and --yes."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
    yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
    return dry_run(yes(verb))


def cluster_option(verb: V) -> V:
    """Add --cluster; see `cluster_of`."""
    return click.option(
        "--cluster",
        help=(
            "Cluster name; must match the daemon's clusterName (the error shows the expected "
            "value).  [default: the daemon's clusterName]"
        ),
    )(verb)


def cluster_of(target: Target, given: str | None) -> str:
    """The value of --cluster, or the name of the daemon's own cluster."""
    if given is not None:
        return given
    name: str = target.run(lambda client: client.get("/control/v1/status"))["cluster"]
    return name


def reason_option(verb: V) -> V:
    """Add --reason; see `audit_fields`."""
    return click.option(
        "--reason", default="", metavar="TEXT", help="Reason, recorded for other operators."
    )(verb)


def audit_fields(reason: str) -> dict[str, str]:
    """The operator and the reason; a daemon with tokens records the token's role instead."""
    import getpass

    try:
        operator = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id that has no name.
        operator = ""
    return {"by": operator, "reason": reason}


@dataclass(frozen=True, slots=True)
class VerbChange:
    """A request that changes something."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


def send_dry_run(target: Target, change: VerbChange) -> dict[str, Any]:
    """Have the daemon check a change, and return what the change would affect.

    Raises:
        HttpError: the daemon would refuse it; the message is that of the refusal.
    """
    refuse_acts()
    found: dict[str, Any] = send(target, replace(change, query={**change.query, **_DRY_RUN})).json()
    return found


def send(target: Target, change: VerbChange) -> "HttpReply":
    """Make a change.

    Raises:
        HttpError: the daemon refused it.
    """
    return target.run(
        lambda client: client.request(change.method, change.path, change.query, json=change.body)
    )


def check_and_confirm(
    target: Target, change: VerbChange, sentence: str, *, dry_run: bool, yes: bool
) -> bool:
    """Check a change with `send_dry_run`, then `confirm` it.

    Raises:
        HttpError: the daemon would refuse it.
    """
    found = send_dry_run(target, change)
    return confirm(target, sentence, dry_run=dry_run, yes=yes, judged=found)


def confirm(target: Target, sentence: str, *, dry_run: bool, yes: bool, **fields: Any) -> bool:
    """Whether to make the change; the prompt is on stderr, so that stdout stays JSON.

    ``fields`` are further JSON fields of the result of a dry run.
    """
    refuse_acts()
    if dry_run:
        report_result(target, "dry_run", f"would {sentence}", **fields)
        return False
    if not yes:
        question = escape(f"{sentence[0].upper()}{sentence[1:]}?")
        click.confirm(question, abort=True, err=True)
    return True


def report_result(target: Target, result: str, sentence: str, **fields: Any) -> None:
    """Print the result: the sentence, or all of it as JSON."""
    if target.is_json:
        echo_json({"result": result, "sentence": sentence, **fields})
    else:
        echo(sentence)
