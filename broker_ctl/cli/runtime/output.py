"""Output of commands: tables and JSON."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from broker_ctl.cli.runtime.formats import Output, chosen_format
from broker_ctl.cli.runtime.units import label_of, value_text
from broker_ctl.core.model.printable import escape

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
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


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
