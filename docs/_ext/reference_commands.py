"""The command line as a page, from click's own objects."""

import re
import textwrap
from collections.abc import Iterator

import click

from broker_ctl.cli.main import main
from docs._ext.markdown import code, escape, table


def page() -> str:
    """Every command, and every option of each."""
    return "\n".join(line for ctx in commands() for line in _entry(ctx))


def commands() -> Iterator[click.Context]:
    """All that can be called, groups before what is in them."""
    yield from _under(click.Context(main, info_name="broker-ctl"))


def options_of(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Spelling and help of each option that is shown."""
    for parameter in ctx.command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        # An argument that says nothing of itself is in the usage, and in the text.
        if record is not None and record[1] and parameter.name != "help":
            yield record


def anchor(ctx: click.Context) -> str:
    """Where a command is explained."""
    return f"command-{ctx.command_path.replace(' ', '-')}"


def _under(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield from _under(click.Context(command, info_name=name, parent=ctx))


def _entry(ctx: click.Context) -> Iterator[str]:
    command = ctx.command
    depth = min(len(ctx.command_path.split()) + 1, 4)
    yield f"({anchor(ctx)})="
    yield f"{'#' * depth} {escape(ctx.command_path)}\n"
    pieces = " ".join(command.collect_usage_pieces(ctx))
    yield f"```text\n{ctx.command_path} {pieces}\n```\n"
    yield from _paragraphs(command.help or command.short_help or "")
    options = [[code(spelling), escape(text)] for spelling, text in options_of(ctx)]
    if options:
        yield table(["Option", "Meaning"], options)
    yield from _paragraphs(command.epilog or "")


def _paragraphs(text: str) -> Iterator[str]:
    """Click's text: a paragraph that begins with a backspace keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            first, _, rest = paragraph.removeprefix("\b").strip("\n").partition("\n")
            body = f"{first}\n{rest}" if not first.endswith(":") else rest
            yield f"{escape(first)}\n" if first.endswith(":") else ""
            yield f"```text\n{textwrap.dedent(body)}\n```\n" if body.strip() else ""
        else:
            yield f"{escape(' '.join(paragraph.split()))}\n"
