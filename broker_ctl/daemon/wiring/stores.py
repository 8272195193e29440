"""The stores, by the settings."""

import logging
import os
import random
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, Self

from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object, encode
from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.daemon.wiring.keys import identity_of, newest_context, newest_identity
from broker_ctl.daemon.wiring.tls import PemFile
from broker_ctl.errors import CorruptRecord, StartError, StoreError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.conditions import ATTACHED, HAS_IDENTITY
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.metadata import BatchFlush
from broker_ctl.settings.subjects.session import OwnershipAuthority
from broker_ctl.store import paths
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.instrumented import InstrumentedStore
from broker_ctl.store.interface import NO_SESSION, BulkStore, MetadataStore, SavedSession
from broker_ctl.store.zookeeper.access import AclEntry, NodeAccess, ProvenIdentity
from broker_ctl.store.zookeeper.access_control import AccessControl
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore

log = logging.getLogger(__name__)

# The stores, by the settings.


_TLS_FILES: Final = ("zookeeperTlsCaFile", "zookeeperTlsCertFile", "zookeeperTlsKeyFile")


class OwnStore(BulkStore, Protocol):
    """A store with start and close."""

    @property
    def is_connected(self) -> bool:
        """Whether requests are sent immediately."""
        ...

    @property
    def ended_by(self) -> StoreError | None:
        """The error that ended the store for good; None while it may send requests."""
        ...

    @property
    def saved_session(self) -> SavedSession:
        """What resumes the session; read it once the store is closed."""
        ...

    async def start(self) -> None:
        """Connect in the background."""
        ...

    async def least_timeouts_s(self) -> Sequence[float]:
        """The minimum session timeout of each server that answers, in seconds."""
        ...

    def access_control(self, top: str = "/", /) -> AccessControl | None:
        """The lists of ``top`` and the nodes below it; None for a store that has none."""
        ...

    def whole_tree(self) -> "OwnStore | None":
        """A store of the same servers without the chroot, not started; None without a chroot."""
        ...


def node_access(settings: Settings) -> NodeAccess:
    """Who may use the nodes that this daemon creates."""
    zookeeper = settings.zookeeper
    if not (HAS_IDENTITY.holds(settings) and zookeeper.sets_acl):
        return NodeAccess()
    readers = tuple(AclEntry.parse(text) for text in zookeeper.acl_readers.split(";") if text)
    return NodeAccess(is_restricted=True, readers=readers)


def guarded_tree(settings: Settings) -> str:
    """The top of the nodes that this daemon's identity may close to others.

    Beside a Pulsar cluster only its own: the brokers have to use theirs.
    """
    return paths.OWN_NODES if ATTACHED.holds(settings) else "/"


def tls_context(settings: Settings, *, is_anonymous: bool = False) -> ssl.SSLContext | None:
    """The TLS context for ZooKeeper; None without TLS.

    Args:
        settings: name the files.
        is_anonymous: whether to leave out the client certificate.

    Raises:
        StartError: a file that is not a certificate or key.
        SettingsError: a file that cannot be read, or that others can write.
    """
    zookeeper = settings.zookeeper
    if not zookeeper.tls_enabled:
        return None
    for key, path in (
        ("zookeeperTlsCaFile", zookeeper.tls_ca_file),
        ("zookeeperTlsCertFile", zookeeper.tls_cert_file),
    ):
        if path is not None:
            PemFile(key, path).read()
    if zookeeper.tls_key_file is not None:
        PemFile("zookeeperTlsKeyFile", zookeeper.tls_key_file).read_secret()
    try:
        context = ssl.create_default_context(cafile=zookeeper.tls_ca_file)
        if zookeeper.tls_cert_file is not None and not is_anonymous:
            context.load_cert_chain(zookeeper.tls_cert_file, zookeeper.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"TLS to ZooKeeper: {error}") from error
    return context


@dataclass(frozen=True, slots=True)
class StoreCredentials:
    """What a client proves to the ZooKeeper servers, and they to it.

    Attributes:
        tls: None: without TLS.
        anonymous_tls: as ``tls``, without the client certificate.
    """

    identity: ProvenIdentity
    tls: ssl.SSLContext | None
    anonymous_tls: ssl.SSLContext | None

    @classmethod
    def now(cls, settings: Settings) -> Self:
        """Those of a command, which ends before they change.

        Raises:
            StartError, SettingsError: a file that cannot be read, or does not hold what it should.
        """
        return cls(
            identity_of(settings), tls_context(settings), tls_context(settings, is_anonymous=True)
        )

    @classmethod
    def newest(cls, settings: Settings, reloader: Reloader) -> Self:
        """Those of a daemon: each new connection uses the newest certificates and passwords.

        Raises:
            StartError, SettingsError: a file that cannot be read, or does not hold what it should.
        """
        return cls(
            newest_identity(settings, reloader),
            newest_context(
                settings, reloader, "zookeeper-tls", _TLS_FILES, lambda: tls_context(settings)
            ),
            newest_context(
                settings,
                reloader,
                "zookeeper-anonymous-tls",
                _TLS_FILES[:1],
                lambda: tls_context(settings, is_anonymous=True),
            ),
        )


def open_stores(
    settings: Settings,
    rng: random.Random,
    instruments: StoreInstruments,
    resumed: SavedSession,
    reloader: Reloader,
) -> tuple[OwnStore, OwnStore]:
    """Open the store of the brokers and that of the configuration, which may be one object.

    Raises:
        StartError: the store is not set, or a file cannot be read.
    """
    metadata = settings.metadata
    if metadata.store_url is None or metadata.configuration_url is None:
        raise StartError("metadataStoreUrl is not set")
    credentials = StoreCredentials.newest(settings, reloader)
    store = open_store(
        settings,
        metadata.store_url,
        "metadata-store",
        rng,
        instruments=instruments,
        credentials=credentials,
        resumed=resumed,
        max_retries=settings.session.reconnect_max_retries,
        watchdog=_watchdog(settings),
    )
    if metadata.configuration_url == metadata.store_url:
        return store, store
    # It has no ephemeral nodes, so an outage of it never ends the process.
    name = "configuration-metadata-store"
    return store, open_store(
        settings,
        metadata.configuration_url,
        name,
        rng,
        instruments=instruments,
        credentials=credentials,
    )


def _watchdog(settings: Settings) -> LoopWatchdog | None:
    limit_s = settings.session.loop_watchdog_s
    return LoopWatchdog(limit_s) if limit_s else None


def open_store(
    settings: Settings,
    url: StoreUrl,
    name: str,
    rng: random.Random,
    *,
    instruments: StoreInstruments,
    credentials: StoreCredentials,
    resumed: SavedSession = NO_SESSION,
    max_retries: int = -1,
    watchdog: LoopWatchdog | None = None,
    always_restricted: bool = False,
) -> ZooKeeperStore:
    """Build a store that is not started; ``resumed`` is a session of an earlier process.

    With ``always_restricted`` its nodes are closed whatever zookeeperSetAcl says.
    """
    zookeeper, metadata = settings.zookeeper, settings.metadata
    access = node_access(settings)

    def observe_wait(wait_s: float) -> None:
        instruments.queue_wait_ms.observe(wait_s * 1000, name)

    return ZooKeeperStore(
        StoreOptions(
            hosts=",".join(str(server) for server in url.servers),
            chroot=url.chroot,
            name=name,
            session_timeout_s=metadata.session_timeout_s,
            operation_timeout_s=metadata.operation_timeout_s,
            max_in_flight=zookeeper.max_requests_in_flight,
            max_frame_bytes=zookeeper.jute_max_buffer_bytes,
            identity=credentials.identity,
            access=replace(access, is_restricted=True) if always_restricted else access,
            tls=credentials.tls,
            anonymous_tls=credentials.anonymous_tls,
            resumed=resumed,
            max_retries=max_retries,
            watchdog=watchdog,
            # Of batched requests the wait is measured in the batch, before the line.
            on_sent=None if metadata.batching_enabled else observe_wait,
            on_reply=lambda request, took_s: instruments.round_trip_s.observe(
                took_s, name, request
            ),
            on_resolved=instruments.ambiguous_results.add,
            on_no_quorum=lambda servers: instruments.without_quorum.report(servers, name),
        ),
        rng,
    )


def batched_store(
    store: BulkStore, settings: Settings, instruments: StoreInstruments, clock: Clock
) -> MetadataStore:
    """Wrap ``store`` so that concurrent requests are sent in batches."""
    metadata = settings.metadata
    if not metadata.batching_enabled:
        return InstrumentedStore(store, instruments, clock)
    rules = BatchRules(
        is_adaptive=metadata.batching_flush is BatchFlush.ADAPTIVE,
        max_delay_s=metadata.batching_max_delay_s,
        max_operations=metadata.batching_max_operations,
        max_bytes=metadata.batching_max_size_bytes,
        max_frame_bytes=settings.zookeeper.jute_max_buffer_bytes,
        operation_timeout_s=metadata.operation_timeout_s,
    )
    return BatchedStore(store, rules, clock, instruments)


# Checks zookeeperTickTimeMillis against the servers.
#
# A client cannot read tickTime; but a server grants at least its minSessionTimeout, which
# defaults to two ticks. The lease, its heartbeats, and the limit for nodes of dead sessions are
# computed from the tick: if the servers' tick is longer than configured, all of them are too
# short.


_TICKS: Final = 2


class TickCheck:
    """Compares the tick at the start."""

    def __init__(self, settings: Settings) -> None:
        zookeeper = settings.zookeeper
        self._tick_ms = zookeeper.tick_time_ms
        self._expected_ms = zookeeper.min_session_timeout_ms or _TICKS * self._tick_ms
        self._is_leased = settings.session.ownership_authority is OwnershipAuthority.LEASE

    def compare(self, least_timeouts_s: Iterable[float]) -> None:
        """Compare with the servers' minimum session timeouts.

        Raises:
            StartError: a server seems to have a longer tick, and the lease depends on it.
        """
        for least_s in sorted(set(least_timeouts_s), reverse=True):
            least_ms = round(least_s * 1000)
            if least_ms == self._expected_ms:
                continue
            reason = (
                f"a ZooKeeper server grants at least {least_ms} ms to a session, but "
                f"{self._expected_ms} ms are expected with zookeeperTickTimeMillis={self._tick_ms}:"
                f" set that to the servers' tickTime ({least_ms // _TICKS}, unless "
                "minSessionTimeout is set there), or zookeeperMinSessionTimeoutMillis to their "
                "minSessionTimeout"
            )
            if least_ms > self._expected_ms and self._is_leased:
                raise StartError(reason)
            log.warning("%s", reason)


# The session file of ``stopMode=keep``: a session left for the next start.
#
# Session id and password are all that a server asks of who resumes a session, so only the file's
# owner may read it.


_NAME = "zookeeper-session.json"


def save(directory: Path, session: SavedSession) -> None:
    """Write the file, atomically replacing an earlier one."""
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / f"{_NAME}.new"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        row = {
            "session": session.session_id,
            "password": session.password.hex(),
            "last_xid": session.last_xid,
        }
        out.write(encode(row))
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(directory / _NAME)


def take(directory: Path) -> SavedSession:
    """Read and delete the file, so that a session is resumed once; no session without a file."""
    # Renamed first: of two processes that start at once, only one finds the file.
    taken = directory / f"{_NAME}.{os.getpid()}"
    try:
        (directory / _NAME).rename(taken)
    except FileNotFoundError:
        return NO_SESSION
    try:
        row = decode_object(read_guarded(taken))
        password = bytes.fromhex(row["password"])
        return SavedSession(int(row["session"]), password, int(row["last_xid"]))
    except OSError as error:
        log.warning("the session of the file %s is not resumed: %s", directory / _NAME, error)
        return NO_SESSION
    except (CorruptRecord, KeyError, TypeError, ValueError):
        return NO_SESSION
    finally:
        taken.unlink()
