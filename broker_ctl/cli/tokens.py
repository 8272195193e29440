"""``broker-ctl tokens``: keys, JSON Web Tokens as Pulsar has them, and hashes of static tokens."""

import base64
import os
import re
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import output_option
from broker_ctl.cli.runtime.secret_files import read_secret_file
from broker_ctl.cli.runtime.verbs import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.security.jwt import JwtKey, SigningKey
    from broker_ctl.security.key_source import KeySource


# Where the verbs of tokens read keys and tokens from.


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


# ``broker-ctl tokens create``.


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
_CREATE_EXAMPLES: Final = """\b
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


@click.command("create", short_help="Create a token.", epilog=_CREATE_EXAMPLES)
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
def create(
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
    from broker_ctl.cli.runtime.output import create_file, echo, echo_json
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
    from broker_ctl.security.jwt import SigningKey

    if (secret is None) == (private is None):
        raise click.UsageError("either --secret-key or --private-key is needed")
    if secret is not None:
        source, option, parse = secret, "--secret-key", SigningKey.secret
    else:
        assert private is not None
        source, option, parse = private, "--private-key", SigningKey.private
    return load_key(source, option, lambda content: parse(content, algorithm), is_secret=True)


# ``broker-ctl tokens hash``.


_TOKEN_BYTES: Final = 32
_HASH_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens hash admin --output-token admin.token
  broker-ctl tokens hash admin --token-file admin.token
"""


def _role_of_hash(_: click.Context, __: click.Parameter, text: str) -> str:
    role = text.strip()
    if not role or not role.isprintable() or ":" in role or role.startswith("#"):
        raise click.BadParameter("a role is printable, has no colon, and does not begin with #")
    return role


@click.command("hash", short_help="Create a static token, and its hash.", epilog=_HASH_EXAMPLES)
@click.argument("role", callback=_role_of_hash)
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
def hash_(
    *, role: str, token_file: Path | None, stdin: bool, output_token: Path | None, output: str
) -> None:
    """Print the line of ROLE for tokenSecretKeyFile, with the hash of a token in its place.

    The file of --output-token is for the client, and readable by its owner only. A reader of
    tokenSecretKeyFile cannot use a hash. Tokens that could be guessed are refused.
    """
    from broker_ctl.cli.runtime.output import create_file, echo, echo_json
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


# ``broker-ctl tokens create-secret-key`` and ``create-key-pair``.


_PUBLIC_MODE: Final = 0o644
_FORMATS: Final = ("table", "json")
_KEY_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens create-secret-key --output secret.key
  broker-ctl tokens create-secret-key --base64 --signature-algorithm HS512
"""
_PAIR_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens create-key-pair --output-private-key private.key --output-public-key public.key
  broker-ctl tokens create-key-pair -a ES256 --output-private-key private.key --output-public-key public.key
"""  # noqa: E501  # commands on one line each


def _key_file(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and str(path) in _FORMATS:
        raise click.BadParameter(
            f"names the file of the key here, as in Pulsar; ./{path} if this is what you mean"
        )
    return path


@click.command("create-secret-key", short_help="Create a secret key (HMAC).", epilog=_KEY_EXAMPLES)
@click.option(
    "-a",
    "--signature-algorithm",
    type=click.Choice(["HS256", "HS384", "HS512"]),
    default="HS256",
    show_default=True,
    help="Algorithm that the key is long enough for.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_key_file,
    help="File for the key, which must not exist.  [default: standard output]",
)
@click.option("-b", "--base64", "is_base64", is_flag=True, help="Write the key in base64.")
def create_secret_key(signature_algorithm: str, output: Path | None, is_base64: bool) -> None:
    """Write a new random secret key, which signs tokens and verifies them (tokenSecretKey).

    With a file, only its owner can read it. A key in base64 is for tokenSecretKey=data:;base64,...;
    in a file: URL its characters would be the key, for Pulsar as for broker-ctl.
    """
    from broker_ctl.cli.runtime.output import create_file, echo
    from broker_ctl.security.jwt import new_secret_key

    key = new_secret_key(signature_algorithm)
    if is_base64:
        key = base64.b64encode(key)
    if output is not None:
        create_file(output, key)
        echo(f"wrote a key to {output}; for all brokers: tokenSecretKey=file://{output.resolve()}")
        return
    if not is_base64 and sys.stdout.isatty():
        raise click.UsageError("a terminal cannot show a key in bytes: --output FILE or --base64")
    sys.stdout.buffer.write(key)


@click.command(
    "create-key-pair", short_help="Create a private and a public key.", epilog=_PAIR_EXAMPLES
)
@click.option(
    "-a",
    "--signature-algorithm",
    type=click.Choice(["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]),
    default="RS256",
    show_default=True,
    help="Algorithm of the keys; tokenPublicAlg of the brokers.",
)
@click.option(
    "--output-private-key",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the private key (PKCS#8, DER), which must not exist.",
)
@click.option(
    "--output-public-key",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the public key (X.509, DER), which must not exist.",
)
@output_option()
def create_key_pair(
    signature_algorithm: str, output_private_key: Path, output_public_key: Path, output: str
) -> None:
    """Write a new private key, which signs tokens, and the public key that verifies them.

    Brokers need the public key only (tokenPublicKey). The private key is readable by its owner.
    """
    from broker_ctl.cli.runtime.output import create_file, echo, echo_json
    from broker_ctl.security.jwt import new_key_pair

    pair = new_key_pair(signature_algorithm)
    create_file(output_private_key, pair.private)
    try:
        create_file(output_public_key, pair.public, _PUBLIC_MODE)
    except click.ClickException:
        # Half a pair is of no use, and would be in the way of the next try.
        output_private_key.unlink()
        raise
    if output == "json":
        echo_json(
            {
                "private_key": str(output_private_key),
                "public_key": str(output_public_key),
                "algorithm": signature_algorithm,
            }
        )
        return
    echo(
        f"wrote {output_private_key}, to keep secret, and {output_public_key}; for all brokers: "
        f"tokenPublicKey=file://{output_public_key.resolve()}, tokenPublicAlg={signature_algorithm}"
    )


# ``broker-ctl tokens show``.


_SHOW_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens show --token-file admin.token
  broker-ctl tokens show --stdin < admin.token
  broker-ctl tokens show --token-file admin.token --output json
"""


@click.command("show", short_help="Show the contents of a token.", epilog=_SHOW_EXAMPLES)
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


# ``broker-ctl tokens validate``.


_VALIDATE_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens validate --secret-key file:///etc/broker-ctl/secret.key -f admin.token
  broker-ctl tokens validate -pk /etc/broker-ctl/public.key -a ES256 --stdin < admin.token
"""


@click.command("validate", short_help="Check a token against a key.", epilog=_VALIDATE_EXAMPLES)
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
def validate(
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
    from broker_ctl.security.jwt import JwtKey

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


# ``broker-ctl tokens``: keys, JSON Web Tokens as Pulsar has them, and hashes of static tokens.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl tokens create-secret-key --output secret.key
  broker-ctl tokens create --secret-key file:///etc/broker-ctl/secret.key --subject admin
  broker-ctl tokens validate --secret-key file:///etc/broker-ctl/secret.key -f admin.token
  broker-ctl tokens hash admin --output-token admin.token
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def command() -> None:
    """Create keys and tokens, and show or validate tokens, without a daemon.

    Keys and JSON Web Tokens have the options and formats of `bin/pulsar tokens`: Pulsar and
    broker-ctl read each other's. `hash` is for static tokens.
    """


for _verb in (create_secret_key, create_key_pair, create, show, validate, hash_):
    command.add_command(_verb)
