"""``broker-ctl ca init``."""

from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.ca.files import (
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE_MODE,
    check_free,
    days_option,
    make_directory,
    output_options,
    utc_now,
    write_files,
)

_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca init --cluster prod --ca prod-ca --dry-run
  broker-ctl ca init --cluster prod --ca prod-ca --days 1825
"""


@click.command("init", short_help="Create an authority.", epilog=_EXAMPLES)
@click.option("--cluster", required=True, help="The clusterName of the brokers.")
@click.option(
    "--ca",
    required=True,
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the authority; is created.",
)
@days_option(3_650)
@click.option(
    "--force",
    is_flag=True,
    help="Replace an authority; what the old one has issued is then a stranger's.",
)
@output_options
def command(*, cluster: str, ca: Path, days: int, force: bool, dry_run: bool, output: str) -> None:
    """Create an authority: ca.pem, which brokers and clients trust, and ca.key, to keep secret.

    The key is readable by its owner only, and is not encrypted: keep it on a machine or a medium
    that no broker has.
    """
    from broker_ctl.cli.runtime.output import echo, echo_json
    from broker_ctl.cli.runtime.output_files import SECRET_MODE
    from broker_ctl.security.certificates.authority import CertificateAuthority

    authority = CertificateAuthority.create(cluster, utc_now(), days)
    certificate, key = ca / CA_CERTIFICATE, ca / CA_KEY
    check_free((certificate, key), is_forced=force)
    if not dry_run:
        make_directory(ca)
        write_files(
            {
                key: (authority.private_key, SECRET_MODE),
                certificate: (authority.certificate, CERTIFICATE_MODE),
            }
        )
    if output == "json":
        echo_json(
            {
                "result": "dry_run" if dry_run else "written",
                "cluster": cluster,
                "certificate": str(certificate),
                "key": str(key),
                "expires_at_ms": int(authority.expires.timestamp() * 1000),
            }
        )
        return
    echo(
        f"{'would write' if dry_run else 'wrote'} {certificate}, for tlsTrustCertsFilePath and "
        f"brokerClientTrustCertsFilePath of all brokers, and {key}, to keep secret; valid until "
        f"{authority.expires:%Y-%m-%d}"
    )
