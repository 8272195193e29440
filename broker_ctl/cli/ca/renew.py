"""``broker-ctl ca renew``."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.ca.files import (
    CERTIFICATE_MODE,
    ca_option,
    check_free,
    days_option,
    load_authority,
    output_options,
    report,
    utc_now,
    write_files,
)

_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca renew --ca prod-ca broker-1/cert.pem --force
  broker-ctl ca renew --ca prod-ca broker-1/cert.pem --out renewed.pem --days 30
"""


@click.command("renew", short_help="Renew a certificate that it has issued.", epilog=_EXAMPLES)
@ca_option
@click.argument("certificate", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the new one.  [default: the same file, with --force]",
)
@days_option(90)
@click.option("--force", is_flag=True, help="Replace the file.")
@output_options
def command(
    *,
    ca: Path,
    certificate: Path,
    out: Path | None,
    days: int,
    force: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Write a later CERTIFICATE with the same names and the same key, which stays as it is.

    Only what this authority has issued is renewed. For a new key, issue a new certificate.
    """
    from broker_ctl.errors import InvalidName
    from broker_ctl.security.guarded_files import read_guarded

    target = certificate if out is None else out
    authority = load_authority(ca)
    try:
        holder, renewed = authority.renew(read_guarded(certificate), utc_now(), days)
    except InvalidName as error:
        raise click.ClickException(f"{certificate}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"{certificate}: {error.strerror or error}") from error
    check_free((target,), is_forced=force or dry_run)
    if not dry_run:
        write_files({target: (renewed, CERTIFICATE_MODE)})
    report((target,), holder.names, days=days, dry_run=dry_run, output=output)
