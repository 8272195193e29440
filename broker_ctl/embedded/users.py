"""The user of embedded servers: SASL DIGEST-MD5, with a password that the first start draws.

Sources: ZooKeeper Administrator's Guide, "SASL authentication options"; ``DigestLoginModule``.
"""

import os
import re
import secrets
from pathlib import Path
from typing import Final

from broker_ctl.embedded.config import Extras
from broker_ctl.errors import EmbeddedError
from broker_ctl.security.guarded_files import read_guarded

USER_FILE: Final = "broker.secret"
_USER: Final = "broker"
_PASSWORD_BYTES: Final = 24
# Without quotes and backslashes, which the servers' file would have to escape.
_LINE: Final = re.compile(r"([A-Za-z0-9_.-]+):([!#-\[\]-~]+)\n?")
_JAAS: Final = "jaas.conf"
_PROVIDER: Final = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"


def sasl_user(directory: Path) -> Extras:
    """Servers that know one user, whose ``user:password`` is in a file of ``directory``.

    The file is made with mode 0600 if it does not exist. Daemons name it as
    ``zookeeperSaslDigestFile``.

    Raises:
        EmbeddedError: the file cannot be used, is not ``user:password``, or others can write it.
    """
    path = directory / USER_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _make(path)
        found = _LINE.fullmatch(read_guarded(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddedError(f"{path}: {error}") from error
    if found is None:
        raise EmbeddedError(f"{path}: one line user:password is expected; remove the file")
    user, password = found.groups()
    jaas = (
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'  user_{user}="{password}";\n}};\n'
    )
    return Extras(
        lines=(f"authProvider.sasl={_PROVIDER}",),
        java_options=(f"-Djava.security.auth.login.config=./{_JAAS}",),
        files={_JAAS: jaas},
        # A server with any provider of identities loads that of certificates, too.
        has_tls=True,
    )


def _make(path: Path) -> None:
    """Write a new user, unless there is one."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_USER}:{secrets.token_hex(_PASSWORD_BYTES)}\n")
        # Another start may come first, or an earlier one did: its user stays.
        if not path.exists():
            path.hardlink_to(new)
    except FileExistsError:
        pass
    finally:
        new.unlink()
