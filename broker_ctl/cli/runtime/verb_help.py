"""Layout of --help: whole sentences, examples, exit codes."""

from typing import Final

import click

# Longer than any sentence: click cuts short helps at its limit.
_WHOLE: Final = 1_000
_EXIT_CODES: Final = """\b
Exit codes: 0 done, 1 refused or failed (reason on stderr), 2 wrong option or argument.
"""


class VerbGroup(click.Group):
    """A group whose list of commands shows whole sentences."""

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
        """The command, with exit codes at the end of its help."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else add_exit_codes(command)


def add_exit_codes(command: click.Command) -> click.Command:
    """Append the exit codes to the help of a command."""
    is_group = isinstance(command, click.Group)
    if not is_group and "xit code" not in f"{command.help} {command.epilog}":
        command.epilog = f"{command.epilog or ''}\n{_EXIT_CODES}"
    return command


def write_exit_codes(command: click.Command, formatter: click.HelpFormatter) -> None:
    """Write the common exit codes, unless the help has its own."""
    if "xit code" not in f"{command.help} {command.epilog}":
        formatter.write_paragraph()
        formatter.write_text(_EXIT_CODES.replace("\b\n", "").strip())
