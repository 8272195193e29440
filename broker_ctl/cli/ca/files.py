"""The files that the verbs of an authority read and write."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output_files import create_file

if TYPE_CHECKING:
    from broker_ctl.security.certificates.authority import CertificateAuthority

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
