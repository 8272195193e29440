"""Output of commands: tables, JSON, units, files; progress on stderr."""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from broker_ctl.clock import SystemClock
from broker_ctl.core.model.load import throughput_text
from broker_ctl.core.model.safe_text import escape

# Units: base units in JSON, named by the suffix of a field; readable units in tables.
#
# A quantity has the same JSON unit in every command. Tables show bytes and bytes per second with
# binary prefixes, ratios as percent, and timestamps as dates. Imbalance, the maximum over the mean
# load, is a plain number in both.


_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


class Unit(NamedTuple):
    """The suffix of a field's name, and how tables format the field."""

    suffix: str
    text: Callable[[float], str]


def percent_text(ratio: float) -> str:
    """``41.9%``."""
    return f"{ratio:.1%}"


def size_text(size_bytes: float) -> str:
    """``12.5 MiB``."""
    return throughput_text(size_bytes).removesuffix("/s")


def time_text(at_ms: float) -> str:
    """``2026-11-22T22:36:27Z``."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        # A report of another program may have any number here.
        return "-"


def duration_text(seconds: float | None) -> str:
    """``0.25 s``, ``40 s``, ``2 min 5 s``, ``1 h 20 min``, ``3 d 4 h``."""
    if seconds is None:
        return "unknown"
    if abs(seconds) < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def rate_text(rate: float) -> str:
    """``12,345 msg/s``."""
    return f"{rate:,.0f} msg/s" if rate >= 100 else f"{rate:.3g} msg/s"


# Longest suffix first: `_bytes_per_s` ends in `_s`, too.
UNITS: Final = (
    Unit("_bytes_per_s", throughput_text),
    Unit("_msg_per_s", rate_text),
    Unit("_moves_per_s", lambda rate: f"{rate * _MINUTE_S:.3g} a minute"),
    Unit("_ratio_per_h", lambda ratio: f"{ratio:.2%} an hour"),
    Unit("_bytes", size_text),
    Unit("_ratio", percent_text),
    Unit("_ms", time_text),
    Unit("_s", duration_text),
)
# Names that consist of a unit only.
_BARE: Final = {"msg_per_s": "messages", "at_ms": "at"}


def unit_of(name: str) -> Unit | None:
    """The unit of a field, by the suffix of its name."""
    return next((unit for unit in UNITS if f"_{name}".endswith(unit.suffix)), None)


def label_of(name: str) -> str:
    """The label of a field in tables: its name without the unit."""
    unit = unit_of(name)
    bare = name if unit is None else name.removesuffix(unit.suffix)
    return _BARE.get(bare, bare).replace("_", " ")


def value_text(name: str, value: Any) -> Any:
    """The value as tables show it; unchanged if the field has no unit."""
    unit = unit_of(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return unit.text(value) if unit is not None and is_number else value


# Times and durations on the command line.


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")


def _seconds(text: str) -> float | None:
    """The seconds of a duration above 0; None: not a duration."""
    found = _DURATION.fullmatch(text)
    if found is None or int(found[1]) == 0:
        return None
    return float(int(found[1]) * _UNITS[found[2]])


def _dated(text: str) -> int | None:
    """The ms since 1970 of a date and time; None: it is none."""
    try:
        # A time without a zone is local, as `at` and `systemd-run` have it.
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


class PastTime(click.ParamType[int]):
    """A date and time (ISO 8601, local unless it names a zone), or ``2h`` ago.

    In ms since 1970.
    """

    name = "past time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """In ms since 1970."""
        text = str(value)
        if (seconds := _seconds(text)) is not None:
            return SystemClock().wall_ms() - round(seconds * 1000)
        at_ms = _dated(text)
        if at_ms is None or at_ms <= 0:
            examples = "2030-01-31T02:00, 2030-01-31T02:00Z, 90s, 15m, 2h or 1d"
            self.fail(f"{value!r} is not a time such as {examples}", param, ctx)
        return at_ms


class Time(click.ParamType[int]):
    """A date and time (ISO 8601, local unless it names a zone), or ``+2h`` from now.

    In ms since 1970.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """In ms since 1970."""
        text = str(value)
        if text.startswith("+") and (seconds := _seconds(text[1:])) is not None:
            return SystemClock().wall_ms() + round(seconds * 1000)
        at_ms = _dated(text)
        if at_ms is None:
            self.fail(
                f"{value!r} is not a time such as 2030-01-31T02:00, 2030-01-31T02:00Z or +2h",
                param,
                ctx,
            )
        return at_ms


# ``--output`` and ``--watch``: one option each, for every verb that shows something.
#
# A verb distinguishes two cases only: a table of its own, and the JSON value of what it shows.
# YAML and the wide table are other renderings of that value, so every verb with JSON has them.


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


# Output of commands: tables and JSON.


_PIPE_WIDTH: Final = 400
# Numbers from here on are shown without decimals.
_LARGE: Final = 100
# Texts of several lines, and columns in them, are meant.
_LAYOUT: Final = "\n\t"
# Fitting ten thousand rows to the terminal takes seconds; longer tables are printed as they are.
_MOST_FITTED: Final = 1_000


def echo(text: str, *, err: bool = False) -> None:
    """Print text with names from outside: their control characters are escaped."""
    click.echo(escape(text, keep=_LAYOUT), err=err)


def escape_values(value: Any) -> Any:
    """A JSON value whose texts are safe to show."""
    match value:
        case str():
            return escape(value)
        case dict():
            return {escape(name): escape_values(each) for name, each in value.items()}
        case list() | tuple():
            return [escape_values(each) for each in value]
        case _:
            return value


def echo_json(value: Any) -> None:
    """Print a value: as indented JSON, as YAML, or as a table of all fields; see `formats`."""
    from broker_ctl.codec import decode, encode_pretty

    data = encode_pretty(value)
    match chosen_format():
        case Output.YAML:
            click.echo(_as_yaml(decode(data)), nl=False)
        case Output.WIDE:
            _print_wide(decode(data))
        case _:
            click.echo(data.decode())


def echo_json_line(value: Any) -> None:
    """Print one value of a sequence without an end: JSON in one line, or a document of YAML."""
    from broker_ctl.codec import decode, encode

    data = encode(value)
    match chosen_format():
        case Output.YAML:
            click.echo(f"---\n{_as_yaml(decode(data))}", nl=False)
        case Output.WIDE:
            _print_wide(decode(data))
        case _:
            click.echo(data.decode())


def _as_yaml(value: Any) -> str:
    import yaml

    text: str = yaml.dump(
        value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=_PIPE_WIDTH
    )
    return text.removesuffix("...\n")


def _print_wide(value: Any) -> None:
    """Every field of a JSON value."""
    match value:
        case dict():
            print_facts("", value)
        case [dict(), *_] if all(isinstance(row, dict) for row in value):
            columns = list(dict.fromkeys(name for row in value for name in row))
            rows = ([value_text(name, row.get(name)) for name in columns] for row in value)
            print_table("", map(label_of, columns), rows)
        case list():
            for each in value:
                click.echo(_cell(each))
        case _:
            click.echo(_cell(value))


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; in a pipe each row is one line, so that grep finds whole rows."""
    title, headers = escape(title), [escape(column) for column in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    if len(cells) > _MOST_FITTED or chosen_format() is Output.WIDE:
        click.echo(_plain_table(title, headers, cells))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD if any(headers) else box.SIMPLE,
        show_header=any(headers),
    )
    for column in headers:
        table.add_column(column, overflow="fold")
    for row in cells:
        # Text: rich would take a value in brackets for markup.
        table.add_row(*map(Text, row))
    if sys.stdout.isatty():
        Console().print(table)
        return
    text = io.StringIO()
    Console(width=_PIPE_WIDTH, file=text).print(table)
    # No padding: a pager would wrap it, and diff would show it.
    click.echo("\n".join(line.rstrip() for line in text.getvalue().splitlines()))


def _plain_table(title: str, headers: list[str], cells: list[list[str]]) -> str:
    """The table as plain text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    rows = [headers, ["-" * width for width in widths], *cells] if any(headers) else cells
    lines = [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([*([title] if title else []), "", *(line.rstrip() for line in lines), ""])


def print_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Print a JSON object: scalars as one table, then a table for each list of objects."""
    plain = {key: value for key, value in facts.items() if not _is_nested(value)}
    if plain:
        facts_shown = ((label_of(key), value_text(key, value)) for key, value in plain.items())
        print_table(title, ("", ""), facts_shown)
    for key, value in facts.items():
        if isinstance(value, Mapping) and value:
            print_facts(label_of(key), value)
        elif _is_nested(value):
            columns = _columns(value)
            rows = ([value_text(name, _cell_value(row, name)) for name in columns] for row in value)
            print_table(label_of(key), map(label_of, columns), rows)


def sentence_of(decision: Mapping[str, Any]) -> str:
    """The sentence of a decision, without "skip" if the result beside it is "skipped"."""
    sentence = str(decision["sentence"])
    return sentence.removeprefix("skip ") if decision.get("result") == "skipped" else sentence


def reason_first(decision: Mapping[str, Any], namespace: str = "", *, count: int = 1) -> str:
    """A decision for a narrow line: why, what, and then the details, which may be cut.

    Args:
        decision: as ``/control/v1/history`` has it.
        namespace: that of all bundles in view, which their names need not repeat; empty: none is.
        count: decisions of this reason for which the line stands.
    """
    text = sentence_of(decision)
    reason = str(decision.get("reason", "")).replace("_", " ")
    end = f": {reason}: {decision.get('detail', '')}"
    if reason and text.endswith(end):
        what = text.removesuffix(end)
        if "source" in decision and "destination" in decision:
            what = f"{decision['bundle']} {decision['source']} -> {decision['destination']}"
        number = f" ({count})" if count > 1 else ""
        text = f"{reason}{number}: {what}: {decision['detail']}"
    # A topic of it keeps its whole name.
    return text.replace(f"{namespace}/0x", "0x") if namespace else text


def shared_namespace(bundles: Iterable[str]) -> str:
    """The namespace that all these bundles are of; empty: there are several."""
    found = {bundle.rpartition("/")[0] for bundle in bundles}
    return found.pop() if len(found) == 1 else ""


def _cell_value(row: Mapping[str, Any], name: str) -> Any:
    return sentence_of(row) if name == "sentence" else row.get(name)


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields that occur in any row; of decisions, only result and sentence."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return ["result", "sentence"] if "sentence" in names else names


def _is_nested(value: object) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return bool(value) and all(isinstance(item, Mapping) for item in value)


def _cell(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case float() if abs(value) >= _LARGE:
            return f"{value:,.0f}"
        case float():
            return f"{value:.3g}"
        case dict() | list():
            from broker_ctl.codec import encode

            return encode(value).decode() if value else "-"
        case _:
            return escape(str(value))


# Output files: written atomically; existing ones are replaced only with --force.


# Only the owner may read it.
SECRET_MODE: Final = 0o600


def check_new(path: Path, option: str, *, is_forced: bool) -> None:
    """Check an output path before the work starts.

    Raises:
        BadParameter: the file exists, or its directory does not.
    """
    hint = f"'{option}'"
    if path.is_dir() or not path.parent.is_dir():
        raise click.BadParameter(f"{path}: not a file in an existing directory", param_hint=hint)
    if path.exists() and not is_forced:
        raise click.BadParameter(f"{path} exists; --force replaces it", param_hint=hint)


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """A temporary path with the same suffix, renamed to ``path`` at the end of the block.

    Raises:
        ClickException: the file cannot be written.
    """
    # The pid: another run may be writing the same file.
    beside = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def create_file(path: Path, content: bytes, mode: int = SECRET_MODE) -> None:
    """Write a new file with this mode; an existing one is kept, whatever it is.

    Raises:
        ClickException: it exists, or cannot be written.
    """
    try:
        # Exclusive: a key that is in use must not be lost, and a planted link not be followed.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(content)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


def replace_file(file: Path, content: bytes) -> None:
    """Replace an existing file atomically, with the same mode and owner.

    Raises:
        ClickException: it cannot be replaced.
    """
    fresh = file.with_name(f"{file.name}.new")
    try:
        was = file.stat()
        fresh.unlink(missing_ok=True)
        with os.fdopen(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE), "wb"
        ) as out:
            out.write(content)
            out.flush()
            os.fchmod(out.fileno(), was.st_mode & 0o7777)
            if os.geteuid() == 0:
                os.fchown(out.fileno(), was.st_uid, was.st_gid)
            os.fsync(out.fileno())
        fresh.replace(file)
        directory = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from error
