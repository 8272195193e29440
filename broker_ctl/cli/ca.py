"""``broker-ctl ca``: an authority for the certificates of one cluster."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import create_file, output_option
from broker_ctl.cli.runtime.verbs import VerbGroup

if TYPE_CHECKING:
    from broker_ctl.security.certificates.authority import CertificateAuthority, Holder


# The files that the verbs of an authority read and write.


V = TypeVar("V", bound=Callable[..., None])

CA_CERTIFICATE: Final = "ca.pem"
CA_KEY: Final = "ca.key"
CERTIFICATE_MODE: Final = 0o644
MAX_DAYS: Final = 7_300


def days_option(default: int) -> Callable[[V], V]:
    """Add --days."""
    return click.option(
        "--days",
        type=click.IntRange(1, MAX_DAYS),
        default=default,
        show_default=True,
        help="Days for which the certificate is valid.",
    )


def output_options(verb: V) -> V:
    """Add --dry-run and --output."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be written.")
    return dry_run(output_option()(verb))


def ca_option(verb: V) -> V:
    """Add --ca; see `load_authority`."""
    return click.option(
        "--ca",
        required=True,
        metavar="DIRECTORY",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Directory of the authority, of broker-ctl ca init.",
    )(verb)


def utc_now() -> dt.datetime:
    """The time, without fractions of a second, which certificates do not have."""
    from broker_ctl.clock import SystemClock

    return dt.datetime.fromtimestamp(SystemClock().wall_ms() // 1000, dt.UTC)


def load_authority(directory: Path) -> "CertificateAuthority":
    """Read the authority in a directory.

    Raises:
        BadParameter: a file cannot be read, or others can write the key.
        ClickException: the files are not those of an authority.
    """
    from broker_ctl.cli.runtime.secret_files import read_secret_file
    from broker_ctl.errors import SettingsError
    from broker_ctl.security.certificates.authority import CertificateAuthority

    certificate = read_secret_file(directory / CA_CERTIFICATE, "--ca", is_public=True)
    key = read_secret_file(directory / CA_KEY, "--ca")
    try:
        return CertificateAuthority.load(certificate, key)
    except SettingsError as error:
        raise click.ClickException(f"{directory}: {error}") from error


def check_free(paths: Iterable[Path], *, is_forced: bool) -> None:
    """Refuse to replace files, unless that is wanted.

    Raises:
        ClickException: one of them exists; names it.
    """
    for path in paths:
        if not is_forced and (path.exists() or path.is_symlink()):
            raise click.ClickException(f"{path} exists; --force replaces it")


def write_files(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Write files with their modes, each as a whole; existing ones are replaced.

    Raises:
        ClickException: a file cannot be written; none of them was replaced then.
    """
    beside = {path: path.with_name(f".{path.name}.new") for path in files}
    try:
        for path, (content, mode) in files.items():
            # What an interrupted run has left.
            beside[path].unlink(missing_ok=True)
            create_file(beside[path], content, mode)
        for path in files:
            beside[path].replace(path)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror or error}") from error
    finally:
        for path in beside.values():
            path.unlink(missing_ok=True)


def make_directory(path: Path) -> None:
    """Make a directory for keys, unless it is there.

    Raises:
        ClickException: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


def report(
    files: Iterable[Path], names: Iterable[str], *, days: int, dry_run: bool, output: str
) -> None:
    """Print which files were written, or would be, for whom."""
    from broker_ctl.cli.runtime.output import echo, echo_json

    paths, named = [str(path) for path in files], list(names)
    if output == "json":
        result = "dry_run" if dry_run else "written"
        echo_json({"result": result, "files": paths, "names": named, "valid_days": days})
        return
    done = "would write" if dry_run else "wrote"
    echo(f"{done} {', '.join(paths)} for {', '.join(named)}; valid for {days} days")


# ``broker-ctl ca init``.


_INIT_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca init --cluster prod --ca prod-ca --dry-run
  broker-ctl ca init --cluster prod --ca prod-ca --days 1825
"""


@click.command("init", short_help="Create an authority.", epilog=_INIT_EXAMPLES)
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
def init(*, cluster: str, ca: Path, days: int, force: bool, dry_run: bool, output: str) -> None:
    """Create an authority: ca.pem, which brokers and clients trust, and ca.key, to keep secret.

    The key is readable by its owner only, and is not encrypted: keep it on a machine or a medium
    that no broker has.
    """
    from broker_ctl.cli.runtime.output import SECRET_MODE, echo, echo_json
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


# ``broker-ctl ca issue``.


_ISSUE_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca issue --ca prod-ca --broker broker-1.example.com:8080 --out broker-1
  broker-ctl ca issue --ca prod-ca --broker 10.0.0.1:8080 --host b1.example.com --out broker-1
  broker-ctl ca issue --ca prod-ca --client admin --out admin --days 30
"""


@click.command("issue", short_help="Issue a certificate with a new key.", epilog=_ISSUE_EXAMPLES)
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
def issue(
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
    from broker_ctl.cli.runtime.output import SECRET_MODE

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
    from broker_ctl.security.certificates.peer_certificate import broker_uri, replica_broker_uri

    if broker is None:
        if not role:
            raise click.BadParameter("a role was expected", param_hint="'--client'")
        return Holder(common_name=role)
    uris = [broker_uri(cluster, broker)]
    if number is not None:
        uris.append(replica_broker_uri(cluster, number))
    own = broker.rpartition(":")[0].removeprefix("[").removesuffix("]")
    return Holder(hosts=tuple(dict.fromkeys((own, *hosts))), uris=tuple(uris))


# ``broker-ctl ca renew``.


_RENEW_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca renew --ca prod-ca broker-1/cert.pem --force
  broker-ctl ca renew --ca prod-ca broker-1/cert.pem --out renewed.pem --days 30
"""


@click.command(
    "renew", short_help="Renew a certificate that it has issued.", epilog=_RENEW_EXAMPLES
)
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
def renew(
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


# ``broker-ctl ca``: an authority for the certificates of one cluster.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl ca init --cluster prod --ca prod-ca
  broker-ctl ca issue --ca prod-ca --broker broker-1.example.com:8080 --out broker-1
  broker-ctl ca issue --ca prod-ca --client admin --out admin
  broker-ctl ca renew --ca prod-ca broker-1/cert.pem --force
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def command() -> None:
    """Create an authority for the certificates of one cluster, and issue and renew them.

    It is meant for those who have no other authority. Keep its directory away from the brokers:
    who has its key can be every broker and every client.
    """


for _verb in (init, issue, renew):
    command.add_command(_verb)
