"""Stores as the settings ask for them."""

import random
import ssl
from pathlib import Path

from broker_ctl.errors import StartError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.root import Settings
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore


def read_secret(path: Path, key: str) -> bytes:
    """The content of a secret file, without the newline that editors leave.

    Raises:
        StartError: it cannot be read, or is empty. The content is never shown.
    """
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise StartError(f"{key}={path}: {error.strerror or error}") from error
    if not secret:
        raise StartError(f"{key}={path}: the file is empty")
    return secret


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """How to speak to ZooKeeper over TLS; None: in the clear.

    Raises:
        StartError: a file that cannot be read or is no certificate or key.
    """
    zookeeper = settings.zookeeper
    if not zookeeper.tls_enabled:
        return None
    try:
        context = ssl.create_default_context(cafile=zookeeper.tls_ca_file)
        if zookeeper.tls_cert_file is not None:
            context.load_cert_chain(zookeeper.tls_cert_file, zookeeper.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"TLS to ZooKeeper: {error}") from error
    return context


def open_store(
    settings: Settings,
    url: StoreUrl,
    name: str,
    draws: random.Random,
    *,
    instruments: StoreInstruments,
    reattach: tuple[int, bytes] = (0, b""),
    max_retries: int = -1,
) -> ZooKeeperStore:
    """A store that is yet to be started; ``reattach`` is a session to take up again."""
    zookeeper, metadata = settings.zookeeper, settings.metadata
    digest = b""
    if zookeeper.auth_digest_file is not None:
        digest = read_secret(zookeeper.auth_digest_file, "zookeeperAuthDigestFile")
    session_id, password = reattach
    return ZooKeeperStore(
        StoreOptions(
            hosts=",".join(str(server) for server in url.servers),
            chroot=url.chroot,
            name=name,
            session_timeout_s=metadata.session_timeout_s,
            operation_timeout_s=metadata.operation_timeout_s,
            max_in_flight=zookeeper.max_requests_in_flight,
            max_frame_bytes=zookeeper.jute_max_buffer_bytes,
            digest=digest,
            tls=tls_context(settings),
            session_id=session_id,
            password=password,
            max_retries=max_retries,
            on_sent=lambda wait_s: instruments.queue_wait_ms.observe(wait_s * 1000, name),
        ),
        draws,
    )
