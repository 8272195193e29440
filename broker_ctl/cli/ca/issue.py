"""``broker-ctl ca issue``."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.ca.files import (
    CERTIFICATE_MODE,
    ca_option,
    check_free,
    days_option,
    load_authority,
    make_directory,
    output_options,
    report,
    utc_now,
    write_files,
)

if TYPE_CHECKING:
    from broker_ctl.security.certificates.authority import Holder

_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca issue --ca prod-ca --broker broker-1.example.com:8080 --out broker-1
  broker-ctl ca issue --ca prod-ca --broker 10.0.0.1:8080 --host b1.example.com --out broker-1
  broker-ctl ca issue --ca prod-ca --client admin --out admin --days 30
"""


@click.command("issue", short_help="Issue a certificate with a new key.", epilog=_EXAMPLES)
@ca_option
@click.option(
    "--broker",
    metavar="HOST:PORT",
    help="Broker for which it is, by its id: advertisedAddress and webServicePort (or the TLS "
    "port), as in broker-ctl brokers list.",
)
@click.option("--client", metavar="ROLE", help="Role of the client for which it is.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Further name or IP address at which clients reach the broker; repeatable.",
)
@click.option(
    "--broker-number",
    type=click.IntRange(0, 2**31 - 1),
    metavar="NUMBER",
    help="Its brokerId, if it replicates partitions over TLS.",
)
@click.option(
    "--out",
    required=True,
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for cert.pem, key.pem and ca.pem; is created.",
)
@days_option(90)
@click.option("--force", is_flag=True, help="Replace these files.")
@output_options
def command(
    *,
    ca: Path,
    broker: str | None,
    client: str | None,
    hosts: tuple[str, ...],
    broker_number: int | None,
    out: Path,
    days: int,
    force: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Issue a certificate for a broker (--broker) or for a client (--client).

    That of a broker names its host, and its id as a SPIFFE ID; it serves as tlsCertificateFilePath
    and as brokerClientCertificateFilePath. That of a client names its role. The key is readable by
    its owner only.
    """
    from broker_ctl.cli.runtime.output_files import SECRET_MODE

    if (broker is None) == (client is None):
        raise click.UsageError("either --broker or --client is needed")
    if broker is None and (hosts or broker_number is not None):
        raise click.UsageError("--host and --broker-number are for brokers")
    authority, now = load_authority(ca), utc_now()
    holder = _holder(authority.cluster, broker, client or "", hosts, broker_number)
    certificate, key = authority.issue(holder, now, days)
    files = {
        out / "key.pem": (key, SECRET_MODE),
        out / "cert.pem": (certificate, CERTIFICATE_MODE),
        out / "ca.pem": (authority.certificate, CERTIFICATE_MODE),
    }
    check_free(files, is_forced=force)
    if not dry_run:
        make_directory(out)
        write_files(files)
    report(files, holder.names, days=days, dry_run=dry_run, output=output)


def _holder(
    cluster: str, broker: str | None, role: str, hosts: tuple[str, ...], number: int | None
) -> "Holder":
    from broker_ctl.security.certificates.authority import Holder
    from broker_ctl.security.certificates.spiffe import broker_uri, replica_broker_uri

    if broker is None:
        if not role:
            raise click.BadParameter("a role was expected", param_hint="'--client'")
        return Holder(common_name=role)
    uris = [broker_uri(cluster, broker)]
    if number is not None:
        uris.append(replica_broker_uri(cluster, number))
    own = broker.rpartition(":")[0].removeprefix("[").removesuffix("]")
    return Holder(hosts=tuple(dict.fromkeys((own, *hosts))), uris=tuple(uris))
