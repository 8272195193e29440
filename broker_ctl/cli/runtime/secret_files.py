"""Reads the secret files that options name."""

from pathlib import Path

import click


def read_secret_file(path: Path, option: str, *, is_public: bool = False) -> bytes:
    """Read the file of an option; one line on stderr if others can read it and must not.

    Raises:
        click.BadParameter: it cannot be read, or others can write it.
    """
    from broker_ctl.security.guarded_files import read_guarded

    def warn(text: str) -> None:
        click.echo(f"warning: {option} {path}: {text}", err=True)

    try:
        return read_guarded(path, None if is_public else warn)
    except OSError as error:
        reason = error.strerror or error
        raise click.BadParameter(f"{path}: {reason}", param_hint=option) from error
