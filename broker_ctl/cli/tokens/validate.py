"""``broker-ctl tokens validate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.tokens.sources import key_option, load_key, read_token, token_options

if TYPE_CHECKING:
    from broker_ctl.security.jwt_keys import JwtKey
    from broker_ctl.security.key_source import KeySource

_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens validate --secret-key file:///etc/broker-ctl/secret.key -f admin.token
  broker-ctl tokens validate -pk /etc/broker-ctl/public.key -a ES256 --stdin < admin.token
"""


@click.command("validate", short_help="Check a token against a key.", epilog=_EXAMPLES)
@token_options
@click.option(
    "-a",
    "--signature-algorithm",
    type=click.Choice(["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]),
    help="The only algorithm to accept with --public-key, as tokenPublicAlg.  "
    "[default: those of the key]",
)
@key_option("--secret-key", "-sk", "Secret key that verifies it")
@key_option("--public-key", "-pk", "Public key that verifies it")
@output_option()
def command(
    *,
    token: str | None,
    stdin: bool,
    token_file: Path | None,
    signature_algorithm: str | None,
    secret_key: "KeySource | None",
    public_key: "KeySource | None",
    output: str,
) -> None:
    """Check the signature of TOKEN and that it is valid now; print its claims.

    Audience and role are not checked. Other users of the machine can see an argument: name a file,
    or use --stdin.

    Exit codes: 0 valid, 1 invalid (reason on stderr), 2 wrong option, argument or key.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.codec import encode

    key = _verification_key(secret_key, public_key, signature_algorithm or "")
    text = read_token(token, stdin=stdin, token_file=token_file)
    try:
        claims = _verify(text, key)
    except click.ClickException as error:
        if output == "json":
            echo_json({"is_valid": False, "reason": error.message})
        raise
    if output == "json":
        echo_json({"is_valid": True, "claims": claims})
    else:
        echo(encode(claims).decode())


def _verification_key(
    secret: "KeySource | None", public: "KeySource | None", algorithm: str
) -> "JwtKey":
    from broker_ctl.security.jwt_keys import JwtKey

    if (secret is None) == (public is None):
        raise click.UsageError("either --secret-key or --public-key is needed")
    if secret is not None:
        return load_key(secret, "--secret-key", JwtKey.secret, is_secret=True)
    assert public is not None
    return load_key(
        public, "--public-key", lambda content: JwtKey.public(content, algorithm), is_secret=False
    )


def _verify(token: str, key: "JwtKey") -> dict[str, Any]:
    import jwt

    try:
        return jwt.decode(token, key.key, algorithms=key.algorithms, options={"verify_aud": False})
    except jwt.InvalidAlgorithmError as error:
        raise click.ClickException(
            f"the token is not signed by an algorithm of this key: {', '.join(key.algorithms)}"
        ) from error
    except (jwt.PyJWTError, ValueError, ArithmeticError, RecursionError) as error:
        raise click.ClickException(f"the token is not valid: {error}") from error
