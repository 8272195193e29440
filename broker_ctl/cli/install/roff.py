"""A manual page of a command, in roff, from click's own objects."""

import re
from collections.abc import Iterator
from importlib.metadata import version

import click


def page_name(path: str) -> str:
    """The name of the page of a command: ``broker-ctl-bundles-move``."""
    return path.replace(" ", "-")


def manual_page(ctx: click.Context) -> str:
    """The page of one command; commands below it have pages of their own."""
    command, path = ctx.command, ctx.command_path
    name = page_name(path)
    title = _text(name.upper())
    release = _text(f"broker-ctl {version('broker-ctl')}")
    lines = [
        f'.TH "{title}" "1" "" "{release}" "broker\\-ctl"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(command.get_short_help_str(1_000).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(path)}",
        _text(" ".join(command.collect_usage_pieces(ctx))),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or command.short_help or ""),
        *_options(ctx),
        *_commands(ctx),
        *_epilog(command.epilog or ""),
        *_see_also(ctx),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _options(ctx: click.Context) -> Iterator[str]:
    records = (parameter.get_help_record(ctx) for parameter in ctx.command.get_params(ctx))
    shown = [record for record in records if record is not None]
    if shown:
        yield ".SH OPTIONS"
    for spelling, text in shown:
        yield from (".TP", f".B {_text(spelling)}", _line(text) or "\\&")


def _commands(ctx: click.Context) -> Iterator[str]:
    if not isinstance(ctx.command, click.Group):
        return
    yield ".SH COMMANDS"
    for child in _children(ctx):
        name = page_name(child.command_path)
        yield from (".TP", f".BR {_text(name)} (1)", _line(child.command.get_short_help_str(1_000)))


def _children(ctx: click.Context) -> Iterator[click.Context]:
    assert isinstance(ctx.command, click.Group)
    for name in ctx.command.list_commands(ctx):
        command = ctx.command.get_command(ctx, name)
        if command is not None and not command.hidden:
            yield click.Context(command, info_name=name, parent=ctx)


def every_command(ctx: click.Context) -> Iterator[click.Context]:
    """A command, and all below it that are listed."""
    yield ctx
    if isinstance(ctx.command, click.Group):
        for child in _children(ctx):
            yield from every_command(child)


def _epilog(text: str) -> Iterator[str]:
    """Each paragraph of an epilog begins with its heading, and keeps its lines."""
    for paragraph in _split(text):
        heading, _, body = paragraph.removeprefix("\b").strip("\n").partition("\n")
        if heading.endswith(":") and body:
            yield f".SH {_text(heading.removesuffix(':').upper())}"
            yield from _kept(body)
        elif heading.startswith("Exit codes:"):
            yield ".SH EXIT CODES"
            yield _line(f"{heading.removeprefix('Exit codes:')} {body}")
        else:
            yield from _paragraphs(paragraph)


def _see_also(ctx: click.Context) -> Iterator[str]:
    if ctx.parent is not None:
        yield from (".SH SEE ALSO", f".BR {_text(page_name(ctx.parent.command_path))} (1)")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in _split(text):
        yield ".PP"
        if paragraph.startswith("\b"):
            yield from _kept(paragraph.removeprefix("\b").strip("\n"))
        else:
            yield _line(paragraph)


def _kept(text: str) -> Iterator[str]:
    """Lines as they are."""
    yield from (".nf", *map(_text, text.splitlines()), ".fi")


def _split(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def _line(text: str) -> str:
    return _text(" ".join(text.split()))


def _text(text: str) -> str:
    """Text in which roff finds no requests; a hyphen stays the character that is typed."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
