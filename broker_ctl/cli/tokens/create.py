"""``broker-ctl tokens create``."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.tokens.sources import key_option, load_key

if TYPE_CHECKING:
    from broker_ctl.security.jwt_signing import SigningKey
    from broker_ctl.security.key_source import KeySource

_MINUTE_S: Final = 60
_DAY_S: Final = 86_400
# Pulsar's units; m is minutes.
_UNITS_S: Final = {
    "": 1,
    "s": 1,
    "m": _MINUTE_S,
    "h": 60 * _MINUTE_S,
    "d": _DAY_S,
    "w": 7 * _DAY_S,
    "y": 365 * _DAY_S,
}
_EXPIRY: Final = re.compile(r"(\d{1,12})([smhdwy]?)", re.IGNORECASE)
# Brokers accept no longer ones.
_MAX_ROLE: Final = 256
_MAX_EXPIRY_S: Final = 1000 * _UNITS_S["y"]
_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens create --secret-key file:///etc/broker-ctl/secret.key --subject admin
  broker-ctl tokens create --private-key file:///etc/issuer/private.key -s reader -e 30d
  broker-ctl tokens create -sk /etc/broker-ctl/secret.key -s admin -e 1y --output-token admin.token
"""


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    found = _EXPIRY.fullmatch(text)
    seconds = int(found[1]) * _UNITS_S[found[2].lower()] if found else 0
    if not 0 < seconds <= _MAX_EXPIRY_S:
        raise click.BadParameter(f"{text!r}: 90s, 30m, 12h, 7d, 4w or 1y were expected")
    return seconds


def _role(_: click.Context, __: click.Parameter, text: str) -> str:
    if not 0 < len(text) <= _MAX_ROLE or not text.isprintable():
        raise click.BadParameter(f"1 to {_MAX_ROLE} printable characters were expected")
    return text


def _headers(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r}: name=value was expected")
        if name in {"alg", "typ", "crit", "b64"}:
            raise click.BadParameter(f"{name} is set by the signature")
        found[name] = value
    return found


@click.command("create", short_help="Create a token.", epilog=_EXAMPLES)
@click.option(
    "-a",
    "--signature-algorithm",
    type=click.Choice(
        ["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]
    ),
    help="Algorithm.  [default: RS256, that of the curve, or by the length of the secret]",
)
@click.option("-s", "--subject", required=True, callback=_role, help="Role of the token.")
@click.option(
    "-e",
    "--expiry-time",
    metavar="TIME",
    callback=_seconds,
    help="Time until the token expires, such as 30m, 1h, 3d, 10y.  [default: it does not]",
)
@key_option("--secret-key", "-sk", "Secret key that signs it")
@key_option("--private-key", "-pk", "Private key that signs it")
@click.option(
    "-hs",
    "--headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_headers,
    help="Further header, such as kid; repeatable.",
)
@click.option(
    "--output-token",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the token, which must not exist.  [default: standard output]",
)
@output_option()
def command(
    *,
    signature_algorithm: str | None,
    subject: str,
    expiry_time: int | None,
    secret_key: "KeySource | None",
    private_key: "KeySource | None",
    headers: dict[str, str],
    output_token: Path | None,
    output: str,
) -> None:
    """Sign a token for a role, and print it.

    The claims are Pulsar's: sub, and exp where it expires. A file of --output-token is readable by
    its owner only; --token-file of the other commands takes it.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import create_file
    from broker_ctl.clock import SystemClock

    key = _signing_key(secret_key, private_key, signature_algorithm)
    now_s = SystemClock().wall_ms() // 1000
    expires_at_s = None if expiry_time is None else now_s + expiry_time
    if expires_at_s is None:
        click.echo("warning: this token never expires; --expiry-time 30d limits it", err=True)
    token = key.sign(subject, expires_at_s, headers)
    if output_token is not None:
        create_file(output_token, f"{token}\n".encode())
    shown = {"token": token} if output_token is None else {"token_file": str(output_token)}
    if output == "json":
        expires_at_ms = None if expires_at_s is None else expires_at_s * 1000
        facts = {"subject": subject, "algorithm": key.algorithm, "expires_at_ms": expires_at_ms}
        echo_json({**shown, **facts})
    else:
        echo(token if output_token is None else f"wrote a token of {subject} to {output_token}")


def _signing_key(
    secret: "KeySource | None", private: "KeySource | None", algorithm: str | None
) -> "SigningKey":
    from broker_ctl.security.jwt_signing import SigningKey

    if (secret is None) == (private is None):
        raise click.UsageError("either --secret-key or --private-key is needed")
    if secret is not None:
        source, option, parse = secret, "--secret-key", SigningKey.secret
    else:
        assert private is not None
        source, option, parse = private, "--private-key", SigningKey.private
    return load_key(source, option, lambda content: parse(content, algorithm), is_secret=True)
