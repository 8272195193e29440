"""The state in Kubernetes: a Lease says who holds it, a ConfigMap of the same name has it.

Both are changed by optimistic concurrency: a write names the resource version that it replaces, and
the API refuses it if another process was faster. Every acquisition writes the ConfigMap, so a
former holder that has slept cannot write it any more, whatever its clock says.

A candidate waits until it has seen the same record of the Lease for the whole duration by its own
clock; the times in the record are for people. So clocks need not agree (docs: kubernetes-lease).
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil
from typing import Any, Final, NamedTuple

from broker_ctl.clock import Clock
from broker_ctl.errors import (
    Ambiguous,
    AuthFailed,
    ConnectionLoss,
    HttpError,
    NoAuth,
    SessionExpired,
    StoreError,
)
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.store.in_process.keeper import EMPTY

# An object of Kubernetes has 1 MiB at most; the state is a third larger as base64.
_MOST_BYTES: Final = 700_000
_STATE: Final = "state"
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
            "binaryData": {_STATE: b64encode(state).decode()},
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
    text = (config_map.get("binaryData") or {}).get(_STATE) or ""
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise StoreError(f"the ConfigMap's {_STATE} is not base64: {error}") from error
