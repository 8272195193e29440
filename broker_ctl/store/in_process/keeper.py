"""Who may write, and where what is written outlives the process: a directory, or Kubernetes."""

import asyncio
import fcntl
import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object, encode
from broker_ctl.errors import (
    Ambiguous,
    AuthFailed,
    ConnectionLoss,
    CorruptRecord,
    HttpError,
    NewerVersion,
    NoAuth,
    SessionExpired,
    StoreError,
)
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.store import paths
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.path_rules import is_at_or_below, is_usable_name

# The kept state as bytes: this process's own lasting nodes, with their versions.
#
# Versions and zxids are kept, since an epoch is the version of a node and must never restart.


_VERSION: Final = 1
_FIELDS: Final = len(Stat._fields)


def is_lasting(node: Versioned) -> bool:
    """Whether a node outlives the process: its own, but for heartbeats and ephemeral nodes."""
    return (
        is_at_or_below(paths.OWN_NODES, node.path)
        and not is_at_or_below(paths.LEASES, node.path)
        and not node.stat.is_ephemeral
    )


@dataclass(frozen=True, slots=True)
class StateImage:
    """What is kept.

    Attributes:
        zxid: of the newest transaction; the next one must be newer.
    """

    nodes: tuple[Versioned, ...]
    zxid: int

    @classmethod
    def of(cls, nodes: Iterable[Versioned], zxid: int) -> Self:
        """The lasting ones of these nodes."""
        return cls(tuple(node for node in nodes if is_lasting(node)), zxid)

    def encode(self) -> bytes:
        """The bytes that a keeper gets."""
        rows = [
            {"path": node.path, "data": node.data.decode(), "stat": list(node.stat)}
            for node in self.nodes
        ]
        return encode({"version": _VERSION, "zxid": self.zxid, "nodes": rows})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read kept bytes; none at all are an empty state.

        Raises:
            CorruptRecord: they are not a state. NewerVersion: a later release wrote them.
        """
        if not data:
            return cls((), 0)
        values = decode_object(data)
        if values.get("version") != _VERSION:
            raise NewerVersion(f"the kept state has version {values.get('version')}: upgrade")
        try:
            nodes = tuple(_nodes(values["nodes"]))
            zxid = int(values["zxid"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"the kept state cannot be read: {error!r}") from error
        known = {node.path for node in nodes}
        for node in nodes:
            parent = node.path.rpartition("/")[0]
            if not is_lasting(node) or (parent and parent not in known):
                raise CorruptRecord(f"the kept state has {node.path}, which is not part of it")
        # Children that do not last were counted, and are not there any more.
        counts = Counter(node.path.rpartition("/")[0] for node in nodes)
        return cls(tuple(_with_children(node, counts[node.path]) for node in nodes), zxid)


def _with_children(node: Versioned, count: int) -> Versioned:
    return node._replace(stat=node.stat._replace(children_count=count))


def _nodes(rows: Iterable[dict[str, Any]]) -> Iterator[Versioned]:
    for row in rows:
        path, numbers = str(row["path"]), [int(number) for number in row["stat"]]
        if len(numbers) != _FIELDS or not all(map(is_usable_name, path[1:].split("/"))):
            raise ValueError(f"{path!r} is not a node")
        yield Versioned(path, str(row["data"]).encode(), Stat(*numbers))


# Who may write, and where what is written outlives the process: one protocol, several places.
#
# Holding is the session of `InProcessStore`: a process has one while it holds the state, so that
# lease, election and everything above them work as they do over ZooKeeper.


EMPTY: Final = b""


class StateKeeper(Protocol):
    """Keeps one state, of which at most one process is the holder."""

    @property
    def most_bytes(self) -> int:
        """The largest state that can be kept."""
        ...

    async def read(self) -> bytes:
        """The state as it is now, held or not; `EMPTY` if there is none yet.

        Raises:
            StoreError: it cannot be read.
        """
        ...

    async def acquire(self, timeout_s: float) -> bytes:
        """Wait until this process is the holder; returns the state.

        The hold ends ``timeout_s`` after the newest `acquire` or `renew` was sent, at the earliest.

        Raises:
            StoreError: it cannot become the holder now; another attempt may succeed.
        """
        ...

    async def renew(self) -> None:
        """Prolong the hold.

        Raises:
            SessionExpired: another process is the holder, or may be.
            StoreError: there was no answer; the hold lasts as long as before.
        """
        ...

    async def write(self, state: bytes) -> None:
        """Replace the state, durably, if this process is still the holder.

        Raises:
            SessionExpired: another process is the holder, or may be; nothing was written.
            Ambiguous: the state may have been written.
        """
        ...

    async def release(self) -> None:
        """End the hold, so that another process need not wait for its end."""
        ...

    async def close(self) -> None:
        """Close connections; the hold stays."""
        ...


class Forgetful:
    """Keeps nothing: the state ends with the process, which is the only one."""

    most_bytes = 1 << 30

    async def read(self) -> bytes:
        """Nothing was kept."""
        return EMPTY

    async def acquire(self, timeout_s: float) -> bytes:  # noqa: ARG002  # it never ends
        """Hold at once."""
        return EMPTY

    async def renew(self) -> None:
        """The hold never ends."""

    async def write(self, state: bytes) -> None:
        """The state stays in the store's own memory."""

    async def release(self) -> None:
        """Nobody waits."""

    async def close(self) -> None:
        """There are no connections."""


class Spectator:
    """Reads what another process holds, and writes nothing."""

    def __init__(self, inner: StateKeeper) -> None:
        self._inner = inner
        self.most_bytes = inner.most_bytes

    async def read(self) -> bytes:
        """See `StateKeeper.read`."""
        return await self._inner.read()

    async def acquire(self, timeout_s: float) -> bytes:  # noqa: ARG002  # nothing is held
        """The state as it is now."""
        return await self._inner.read()

    async def renew(self) -> None:
        """There is nothing to prolong."""

    async def write(self, state: bytes) -> None:
        """Refuse.

        Raises:
            NoAuth: always.
        """
        raise NoAuth(f"{len(state)} bytes of state: this process only looks")

    async def release(self) -> None:
        """There is nothing to end."""

    async def close(self) -> None:
        """See `StateKeeper.close`."""
        await self._inner.close()


# The state in a directory of this machine, held by a lock on a file in it.
#
# The system ends the lock with the process, however that ends, and no pause of the process does:
# so a hold needs no renewal, and there is never a second holder.


_LOCK: Final = "lock"
_STATE: Final = "state.json"
_NEW: Final = "state.json.new"
_PRIVATE: Final = 0o600
_MAX_BYTES: Final = 64 << 20


class DirectoryKeeper:
    """See `StateKeeper`; a lone instance, or several on one machine."""

    most_bytes = 16 << 20

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock: int | None = None

    async def read(self) -> bytes:
        """See `StateKeeper.read`."""
        return await asyncio.to_thread(self._read)

    async def acquire(self, timeout_s: float) -> bytes:  # noqa: ARG002  # a lock does not end
        """See `StateKeeper.acquire`.

        Raises:
            ConnectionLoss: another process holds it, or the directory cannot be used.
        """
        return await asyncio.to_thread(self._acquire)

    async def renew(self) -> None:
        """See `StateKeeper.renew`.

        Raises:
            SessionExpired: the lock file was removed or replaced: others can hold the new one.
        """
        if not await asyncio.to_thread(self._is_held):
            self._unlock()
            raise SessionExpired(f"the lock in {self._directory} was removed")

    async def write(self, state: bytes) -> None:
        """See `StateKeeper.write`."""
        await self.renew()
        try:
            await asyncio.to_thread(self._write, state)
        except OSError as error:
            raise Ambiguous(f"cannot write to {self._directory}: {error}", 0, 0) from error

    async def release(self) -> None:
        """See `StateKeeper.release`."""
        self._unlock()

    async def close(self) -> None:
        """There are no connections."""

    def _read(self) -> bytes:
        try:
            # Who writes it gives an operator's directives.
            return read_guarded(self._directory / _STATE, max_bytes=_MAX_BYTES)
        except FileNotFoundError:
            return EMPTY
        except OSError as error:
            raise ConnectionLoss(f"cannot read {self._directory / _STATE}: {error}") from error

    def _acquire(self) -> bytes:
        path = self._directory / _LOCK
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE)
        except OSError as error:
            raise ConnectionLoss(f"cannot use {self._directory}: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            os.close(lock)
            raise ConnectionLoss(f"process {holder or '?'} holds {path}: waiting") from error
        self._lock = lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return self._read()

    def _is_held(self) -> bool:
        if self._lock is None:
            return False
        with suppress(FileNotFoundError):
            there, ours = (self._directory / _LOCK).stat(), os.fstat(self._lock)
            return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
        return False

    def _write(self, state: bytes) -> None:
        """Replace the file as a whole: a crash leaves the old one or the new one."""
        new = self._directory / _NEW
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
        with os.fdopen(file, "wb") as out:
            out.write(state)
            out.flush()
            os.fsync(out.fileno())
        new.rename(self._directory / _STATE)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


# The state in Kubernetes: a Lease says who holds it, a ConfigMap of the same name has it.
#
# Both are changed by optimistic concurrency: a write names the resource version that it replaces,
# and the API refuses it if another process was faster. Every acquisition writes the ConfigMap, so
# a former holder that has slept cannot write it any more, whatever its clock says.
#
# A candidate waits until it has seen the same record of the Lease for the whole duration by its
# own clock; the times in the record are for people. So clocks need not agree (docs:
# kubernetes-lease).


# An object of Kubernetes has 1 MiB at most; the state is a third larger as base64.
_MOST_BYTES: Final = 700_000
_KUBERNETES_STATE: Final = "state"
_LABELS: Final = {"app.kubernetes.io/managed-by": "broker-ctl"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the two objects are.

    Attributes:
        api_url: of the API server.
        name: of both objects.
        holder: this process, by a name that no other has.
    """

    api_url: str
    namespace: str
    name: str
    holder: str

    @property
    def leases(self) -> str:
        """URL of the Leases."""
        return f"{self.api_url}/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def config_maps(self) -> str:
        """URL of the ConfigMaps."""
        return f"{self.api_url}/api/v1/namespaces/{self.namespace}/configmaps"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Seen(NamedTuple):
    """A record of the Lease that is not ours, and when this process has first seen it."""

    version: str
    at_s: float


class KubernetesKeeper:
    """See `StateKeeper`.

    Args:
        http: carries the token of the pod's service account, and TLS; closed with this object.
    """

    most_bytes = _MOST_BYTES

    def __init__(self, place: Place, http: HttpClient, clock: Clock) -> None:
        self._place = place
        self._http = http
        self._clock = clock
        self._timeout_s = 0.0
        self._seen: _Seen | None = None
        self._lease: dict[str, Any] = {}
        self._map: dict[str, Any] = {}

    async def read(self) -> bytes:
        """See `StateKeeper.read`."""
        found = await self._get(f"{self._place.config_maps}/{self._place.name}")
        return EMPTY if found is None else _state_of(found)

    async def acquire(self, timeout_s: float) -> bytes:
        """See `StateKeeper.acquire`.

        Raises:
            ConnectionLoss: another process holds it. NoAuth: the account lacks a right.
        """
        self._timeout_s = timeout_s
        url = f"{self._place.leases}/{self._place.name}"
        lease = await self._get(url)
        spec = {} if lease is None else lease.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if lease is not None and holder not in {"", self._place.holder}:
            self._wait_out(lease, holder, spec)
        transitions = int(spec.get("leaseTransitions") or 0) + (holder != self._place.holder)
        new = self._record(lease, acquired=self._now(), transitions=transitions)
        self._lease = await self._put(self._place.leases, new, is_new=lease is None)
        self._seen = None
        return await self._fence()

    async def renew(self) -> None:
        """See `StateKeeper.renew`."""
        spec = self._lease.get("spec") or {}
        new = self._record(
            self._lease,
            acquired=str(spec.get("acquireTime") or self._now()),
            transitions=int(spec.get("leaseTransitions") or 0),
        )
        try:
            self._lease = await self._put(self._place.leases, new)
        except Ambiguous as error:
            raise ConnectionLoss(f"the Lease {self._place} may not be renewed: {error}") from error

    async def write(self, state: bytes) -> None:
        """See `StateKeeper.write`."""
        self._map = await self._put(self._place.config_maps, self._state_map(self._map, state))

    async def release(self) -> None:
        """See `StateKeeper.release`."""
        spec = self._lease.get("spec") or {}
        if spec.get("holderIdentity") != self._place.holder:
            return
        # As client-go does: a Lease without a holder is free at once.
        free = {**self._lease, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
        await self._put(self._place.leases, free)

    async def close(self) -> None:
        """See `StateKeeper.close`."""
        await self._http.close()

    def _wait_out(self, lease: Mapping[str, Any], holder: str, spec: Mapping[str, Any]) -> None:
        version, now_s = str(lease["metadata"]["resourceVersion"]), self._clock.now_s()
        if self._seen is None or self._seen.version != version:
            self._seen = _Seen(version, now_s)
        left_s = self._seen.at_s + float(spec.get("leaseDurationSeconds") or 0) - now_s
        if left_s > 0:
            raise ConnectionLoss(f"{holder} holds the Lease {self._place}: waiting")

    async def _fence(self) -> bytes:
        """Write the ConfigMap as it is, under a new version: a former holder's writes fail."""
        url = f"{self._place.config_maps}/{self._place.name}"
        known = await self._get(url)
        state = EMPTY if known is None else _state_of(known)
        self._map = await self._put(
            self._place.config_maps, self._state_map(known or {}, state), is_new=known is None
        )
        return state

    def _record(
        self, known: Mapping[str, Any] | None, *, acquired: str, transitions: int
    ) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": self._metadata(known),
            "spec": {
                "holderIdentity": self._place.holder,
                "leaseDurationSeconds": ceil(self._timeout_s),
                "acquireTime": acquired,
                "renewTime": self._now(),
                "leaseTransitions": transitions,
            },
        }

    def _state_map(self, known: Mapping[str, Any], state: bytes) -> dict[str, Any]:
        annotations = {"broker-ctl/holder": self._place.holder, "broker-ctl/at": self._now()}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**self._metadata(known), "annotations": annotations},
            "binaryData": {_KUBERNETES_STATE: b64encode(state).decode()},
        }

    def _metadata(self, known: Mapping[str, Any] | None) -> dict[str, Any]:
        metadata = (known or {}).get("metadata") or {}
        if not metadata:
            name = {"name": self._place.name, "namespace": self._place.namespace}
            return {**name, "labels": dict(_LABELS)}
        return dict(metadata)

    def _now(self) -> str:
        """As Kubernetes writes a time with microseconds."""
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _get(self, url: str) -> dict[str, Any] | None:
        reply = await self._request("GET", url)
        return None if reply.status == HTTPStatus.NOT_FOUND else _object(url, reply)

    async def _put(
        self, urls: str, new: Mapping[str, Any], *, is_new: bool = False
    ) -> dict[str, Any]:
        """Create or replace; what the answer leaves open is resolved by reading.

        A client repeats a replacement whose connection was cut, so a conflict may be with its own
        first attempt. What is written names this process and the time, so it can be recognised.

        Raises:
            SessionExpired: another process was faster. Ambiguous: it may have been written.
        """
        method, url = ("POST", urls) if is_new else ("PUT", f"{urls}/{self._place.name}")
        try:
            reply = await self._request(method, url, dict(new))
        except ConnectionLoss as error:
            try:
                found = await self._get(f"{urls}/{self._place.name}")
            except StoreError:
                found = None
            if found is None or not _is_written(new, found):
                raise Ambiguous(str(error), 0, 0) from error
            return found
        if reply.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
            return _object(url, reply)
        found = await self._get(f"{urls}/{self._place.name}")
        if found is None or not _is_written(new, found):
            raise SessionExpired(f"another process has changed {new['kind']} {self._place}")
        return found

    async def _request(
        self, method: str, url: str, body: Mapping[str, Any] | None = None
    ) -> HttpReply:
        try:
            reply = await self._http.request(method, url, json=body)
        except HttpError as error:
            raise ConnectionLoss(f"Kubernetes: {error}") from error
        if reply.status == HTTPStatus.UNAUTHORIZED:
            raise AuthFailed(f"Kubernetes refuses the token of the service account: {url}")
        if reply.status == HTTPStatus.FORBIDDEN:
            raise NoAuth(f"the service account may not {method} {url}: see attach-kubernetes")
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status == 429:
            raise ConnectionLoss(f"Kubernetes: {method} {url}: {reply.status}")
        return reply


def _is_written(new: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether an object is the one that was to be written."""
    marks = [(one.get("metadata") or {}).get("annotations") for one in (new, found)]
    contents = [(one.get("spec"), one.get("binaryData")) for one in (new, found)]
    return marks[0] == marks[1] and contents[0] == contents[1]


def _object(url: str, reply: HttpReply) -> dict[str, Any]:
    try:
        found = reply.json()
        if reply.status < 300 and found["metadata"]["resourceVersion"]:
            return dict(found)
    except (HttpError, KeyError, TypeError) as error:
        raise StoreError(f"Kubernetes: {url}: not an object: {error!r}") from error
    raise StoreError(f"Kubernetes: {url}: {reply.status}")


def _state_of(config_map: Mapping[str, Any]) -> bytes:
    text = (config_map.get("binaryData") or {}).get(_KUBERNETES_STATE) or ""
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise StoreError(f"the ConfigMap's {_KUBERNETES_STATE} is not base64: {error}") from error
