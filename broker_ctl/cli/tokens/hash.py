"""``broker-ctl tokens hash``."""

import secrets
import sys
from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.secret_files import read_secret_file

_TOKEN_BYTES: Final = 32
_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens hash admin --output-token admin.token
  broker-ctl tokens hash admin --token-file admin.token
"""


def _role(_: click.Context, __: click.Parameter, text: str) -> str:
    role = text.strip()
    if not role or not role.isprintable() or ":" in role or role.startswith("#"):
        raise click.BadParameter("a role is printable, has no colon, and does not begin with #")
    return role


@click.command("hash", short_help="Create a static token, and its hash.", epilog=_EXAMPLES)
@click.argument("role", callback=_role)
@click.option(
    "-f",
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Hash the token in this file, without its role.",
)
@click.option("-i", "--stdin", is_flag=True, help="Hash the token on standard input.")
@click.option(
    "--output-token",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Create a random token, and write it to this file, which must not exist.",
)
@output_option()
def command(
    *, role: str, token_file: Path | None, stdin: bool, output_token: Path | None, output: str
) -> None:
    """Print the line of ROLE for tokenSecretKeyFile, with the hash of a token in its place.

    The file of --output-token is for the client, and readable by its owner only. A reader of
    tokenSecretKeyFile cannot use a hash. Tokens that could be guessed are refused.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import create_file
    from broker_ctl.security.static_tokens import hash_token

    if sum((token_file is not None, stdin, output_token is not None)) != 1:
        raise click.UsageError("one of --output-token, --token-file and --stdin is needed")
    if token_file is not None:
        token = read_secret_file(token_file, "--token-file").decode(errors="replace").strip()
    else:
        token = sys.stdin.readline().strip() if stdin else secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        line = f"{role}:{hash_token(token)}"
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if output_token is not None:
        create_file(output_token, f"{token}\n".encode())
    if output == "json":
        echo_json({"role": role, "line": line})
    else:
        echo(line)
