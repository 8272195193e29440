"""Layout of --help: whole sentences, examples, exit codes."""

from typing import Final

import click

from broker_ctl.cli.runtime.live_names import complete_names
from broker_ctl.cli.runtime.watching import offer_watch

# How a line of the examples begins.
EXAMPLE: Final = "  broker-ctl "
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
        """The command, with its own examples of those of the group, and with exit codes."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        if command.epilog and not isinstance(command, click.Group):
            _, _, group = ctx.command_path.partition(" ")
            command.epilog = own_examples(command.epilog, f"{group} {cmd_name}".strip())
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
