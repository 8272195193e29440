"""Where the verbs of tokens read keys and tokens from."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.secret_files import read_secret_file

if TYPE_CHECKING:
    from broker_ctl.security.key_source import KeySource

V = TypeVar("V", bound=Callable[..., None])
K = TypeVar("K")

_FORMS: Final = "file:///path, /path, data:;base64,... or base64"
_TOKEN_VARIABLE: Final = "TOKEN"  # noqa: S105  # Pulsar's name of the variable


def token_options(verb: V) -> V:
    """Add the ways to give a token, as Pulsar has them; see `read_token`."""
    argument = click.argument("token", required=False)
    stdin = click.option("-i", "--stdin", is_flag=True, help="Read the token from standard input.")
    file = click.option(
        "-f",
        "--token-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Read the token from a file.",
    )
    return argument(stdin(file(verb)))


def read_token(token: str | None, *, stdin: bool, token_file: Path | None) -> str:
    """The token of the argument, of standard input, of the file, or of the environment (TOKEN).

    Raises:
        click.UsageError: none is given, or more than one.
    """
    if sum((token is not None, stdin, token_file is not None)) > 1:
        raise click.UsageError("give the token in one way: TOKEN, --stdin or --token-file")
    if stdin:
        token = sys.stdin.readline()
    elif token_file is not None:
        token = read_secret_file(token_file, "--token-file").decode("ascii", errors="replace")
    elif token is None:
        token = os.environ.get(_TOKEN_VARIABLE)
    found = (token or "").strip()
    if not found:
        raise click.UsageError(
            f"a token is needed: --token-file, --stdin, ${_TOKEN_VARIABLE} or an argument"
        )
    return found


def key_option(name: str, short: str, what: str) -> Callable[[Any], Any]:
    """An option whose value is a `KeySource`."""
    return click.option(short, name, metavar="KEY", callback=_parsed, help=f"{what}: {_FORMS}.")


def _parsed(_: click.Context, __: click.Parameter, text: str | None) -> "KeySource | None":
    from broker_ctl.security.key_source import KeySource

    return None if text is None else KeySource.parse(text)


def load_key(
    source: "KeySource", option: str, parse: Callable[[bytes], K], *, is_secret: bool
) -> K:
    """Read and parse a key; of a secret one that others can see, a line on stderr.

    Raises:
        click.BadParameter: it cannot be read, or is not a key.
    """
    from broker_ctl.errors import SettingsError

    try:
        if source.path is None:
            if is_secret:
                click.echo(
                    f"warning: {option}: every user of this machine can see the key among the "
                    "arguments of this command; name a file: file:///path",
                    err=True,
                )
            content = source.decode()
        else:
            content = read_secret_file(source.path, option, is_public=not is_secret)
        return parse(content)
    except SettingsError as error:
        raise click.BadParameter(f"{source}: {error}", param_hint=option) from error
