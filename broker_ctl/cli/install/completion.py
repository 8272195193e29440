"""``broker-ctl completion``: the script that completes verbs, options and names in a shell."""

from typing import Final

import click

_EXAMPLES: Final = """\b
Examples:
  broker-ctl completion bash > /etc/bash_completion.d/broker-ctl
  broker-ctl completion zsh > ~/.zfunc/_broker-ctl
  broker-ctl completion fish > ~/.config/fish/completions/broker-ctl.fish
"""
# Ids of brokers have colons, at which bash would part them.
_BASH_WORDS: Final = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n"


@click.command(short_help="Print the completion of a shell.", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the script with which a shell completes verbs, options and names.

    Names of brokers, tenants, namespaces and bundles come from the daemon that the command would
    ask (--url, BROKER_CTL_URL), within a second; it never asks for a token.
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root()
    found = get_completion_class(shell)
    assert found is not None, "the choice lists those of click"
    source = found(root.command, {}, "broker-ctl", "_BROKER_CTL_COMPLETE").source()
    click.echo(f"{_BASH_WORDS}{source}" if shell == "bash" else source)
