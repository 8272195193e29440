"""``broker-ctl tokens create-secret-key`` and ``create-key-pair``."""

import base64
import sys
from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.formats import output_option

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
    from broker_ctl.cli.runtime.output import echo
    from broker_ctl.cli.runtime.output_files import create_file
    from broker_ctl.security.jwt_signing import new_secret_key

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
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import create_file
    from broker_ctl.security.jwt_signing import new_key_pair

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
