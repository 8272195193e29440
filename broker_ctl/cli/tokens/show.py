"""``broker-ctl tokens show``."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.tokens.sources import read_token, token_options

_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens show --token-file admin.token
  broker-ctl tokens show --stdin < admin.token
  broker-ctl tokens show --token-file admin.token --output json
"""


@click.command("show", short_help="Show the contents of a token.", epilog=_EXAMPLES)
@token_options
@output_option()
def show(token: str | None, stdin: bool, token_file: Path | None, output: str) -> None:
    """Show the header and the claims of TOKEN, without a check: anybody could have written them.

    Other users of the machine can see an argument: name a file, or use --stdin.
    """
    import jwt

    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.codec import encode

    text = read_token(token, stdin=stdin, token_file=token_file)
    try:
        header = jwt.get_unverified_header(text)
        claims = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise click.ClickException(f"not a JSON Web Token: {error}") from error
    if output == "json":
        echo_json({"is_verified": False, "header": header, "claims": claims})
    else:
        echo(f"{encode(header).decode()}\n---\n{encode(claims).decode()}")
