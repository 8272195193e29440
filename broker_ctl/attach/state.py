"""The store of a daemon that reads a Pulsar cluster by its admin API alone: where its state is."""

import logging
import random
import ssl
from pathlib import Path
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.settings.addresses import StateKind, StateUrl
from broker_ctl.settings.root import Settings
from broker_ctl.store.in_process.keeper import (
    DirectoryKeeper,
    Forgetful,
    KubernetesKeeper,
    Place,
    Spectator,
    StateKeeper,
)
from broker_ctl.store.in_process.store import InProcessStore

log = logging.getLogger(__name__)

_HOLDER_BITS: Final = 40
_DIRECTORY: Final = "kubernetesServiceAccountDirectory"
# A request of a write, which others wait for: well below the duration of a Lease.
_REQUEST_S: Final = 5.0
_MAX_REPLY_BYTES: Final = 4 << 20


def build_state_store(
    settings: Settings, url: StateUrl, clock: Clock, rng: random.Random, *, is_observer: bool
) -> InProcessStore:
    """Build the store, not started; an observer reads the state and holds nothing.

    Raises:
        StartError: the account of the pod cannot be read.
    """
    keeper = _keeper(settings, url, clock, rng)
    return InProcessStore(
        Spectator(keeper) if is_observer else keeper,
        clock,
        rng,
        session_timeout_s=settings.metadata.session_timeout_s,
    )


def _keeper(settings: Settings, url: StateUrl, clock: Clock, rng: random.Random) -> StateKeeper:
    match url.kind:
        case StateKind.MEMORY:
            return Forgetful()
        case StateKind.FILE:
            return DirectoryKeeper(Path(url.path))
        case StateKind.KUBERNETES:
            return _kubernetes_keeper(settings, url, clock, rng)


def _kubernetes_keeper(
    settings: Settings, url: StateUrl, clock: Clock, rng: random.Random
) -> KubernetesKeeper:
    account = settings.pulsar.kubernetes_account_directory
    api = settings.pulsar.kubernetes_url
    namespace, _, name = url.path.rpartition("/")
    place = Place(
        str(api),
        namespace or _read(account / "namespace"),
        name,
        # Unlike the name of a pod, which a restarted container has again.
        f"{settings.broker.broker_id}-{rng.getrandbits(_HOLDER_BITS):010x}",
    )
    http = HttpClient(
        token=_Token(account / "token"),
        timeout_s=_REQUEST_S,
        max_body_bytes=_MAX_REPLY_BYTES,
        ssl=_trusting(account / "ca.crt") if api.scheme == "https" else None,
    )
    return KubernetesKeeper(place, http, clock)


class _Token:
    """The newest token of the account: Kubernetes replaces the file about once an hour."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = _read(file)

    def __call__(self) -> str:
        try:
            self._known = _read(self._file)
        except StartError as error:
            log.warning("the token that was read before is used: %s", error)
        return self._known


def _read(file: Path) -> str:
    try:
        return read_guarded(file).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{_DIRECTORY}={file.parent}: {error}") from error


def _trusting(certificates: Path) -> ssl.SSLContext:
    _read(certificates)
    try:
        return ssl.create_default_context(cafile=certificates)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"{_DIRECTORY}={certificates.parent}: {error}") from error
