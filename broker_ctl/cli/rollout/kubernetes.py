"""Restarts brokers that are pods: deletes a pod, whose StatefulSet creates it again.

For StatefulSets with the update strategy OnDelete: what was applied takes effect pod by pod, in the
order of the rollout. The requests are those of the Kubernetes API reference (v1 Pod: read, delete).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.errors import HttpError, RestartFailed
from broker_ctl.tasks import wait_until

if TYPE_CHECKING:
    from broker_ctl.http_client import HttpClient, HttpReply

# Where the kubelet puts token, CA and namespace of a pod's service account.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER: Final = "https://kubernetes.default.svc"
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_MESSAGE: Final = 300
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MISSING: Final = 404
_CONFLICT: Final = 409
_REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class KubernetesHook:
    """Deletes the pod whose name is the first label of the broker's host.

    Attributes:
        stateful_set: which owns the pods; a pod of another owner is never deleted.
        api: URL of the API server.
        credentials: directory with ``token``, ``ca.crt`` and ``namespace``; the token is read for
            each request, since the kubelet replaces it.
        timeout_s: seconds until another pod has to be there.
    """

    stateful_set: str
    api: str
    credentials: Path
    timeout_s: float

    async def restart(self, broker_id: str) -> None:
        """See `RestartHook.restart`: returns once the API shows another pod of that name.

        Raises:
            RestartFailed: the message says why.
        """
        from broker_ctl.daemon.wiring.tls import PemFile, client_context
        from broker_ctl.http_client import HttpClient

        pod = broker_id.rpartition(":")[0].partition(".")[0]
        if not _LABEL.fullmatch(pod):
            raise RestartFailed(f"{pod!r} of {broker_id} is not the name of a pod")
        namespace = self._read("namespace")
        if not _LABEL.fullmatch(namespace):
            raise RestartFailed(f"{namespace[:70]!r} is not the name of a namespace")
        url = f"{self.api.rstrip('/')}/api/v1/namespaces/{namespace}/pods/{pod}"
        authority = PemFile("ca.crt", self.credentials / "ca.crt")
        tls = client_context(authority, None) if url.startswith("https:") else None
        async with HttpClient(
            token=lambda: self._read("token"),
            timeout_s=_TIMEOUT_S,
            max_body_bytes=_MOST_BYTES,
            ssl=tls,
        ) as http:
            try:
                await self._replace(http, url, pod)
            except HttpError as error:
                raise RestartFailed(f"the Kubernetes API does not answer: {error}") from error

    async def _replace(self, http: "HttpClient", url: str, pod: str) -> None:
        found = await http.request("GET", url)
        if found.status == _MISSING:
            raise RestartFailed(f"there is no pod {pod}")
        shown = _checked(found, f"pod {pod} cannot be read")
        before = _uid(shown)
        if not _is_owned(shown, self.stateful_set):
            raise RestartFailed(f"pod {pod} is not one of StatefulSet {self.stateful_set}")
        # Under its uid: a pod that was replaced meanwhile, with the new template, stays.
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": before},
        }
        deleted = await http.request("DELETE", url, json=options)
        if deleted.status not in {_MISSING, _CONFLICT}:
            _checked(deleted, f"pod {pod} cannot be deleted")

        async def is_replaced() -> bool:
            try:
                reply = await http.request("GET", url)
            except HttpError:
                return False
            return reply.status < _REFUSED and _uid(reply.json()) != before

        if not await wait_until(is_replaced, self.timeout_s):
            raise RestartFailed(f"no other pod {pod} within {self.timeout_s:g} s")

    def _read(self, name: str) -> str:
        from broker_ctl.security.guarded_files import read_guarded

        path = self.credentials / name
        try:
            return read_guarded(path).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RestartFailed(f"{path} cannot be read: {error}") from error


def _checked(reply: "HttpReply", what: str) -> Any:
    """The body of a reply that is not a refusal.

    Raises:
        RestartFailed: with the message of the API's Status.
    """
    if reply.status < _REFUSED:
        return reply.json()
    try:
        body = reply.json()
    except HttpError:
        body = {}
    message = body.get("message", "") if isinstance(body, Mapping) else ""
    raise RestartFailed(f"{what}: {str(message)[:_MOST_MESSAGE] or 'refused'} ({reply.status})")


def _is_owned(pod: Any, stateful_set: str) -> bool:
    """Whether this StatefulSet is the controller of a pod (ownerReferences of its metadata)."""
    owners = pod["metadata"].get("ownerReferences")
    return isinstance(owners, list) and any(
        isinstance(owner, Mapping)
        and owner.get("controller") is True
        and (owner.get("kind"), owner.get("name")) == ("StatefulSet", stateful_set)
        for owner in owners
    )


def _uid(pod: Any) -> str:
    try:
        uid = pod["metadata"]["uid"]
    except (TypeError, KeyError) as error:
        raise RestartFailed("the Kubernetes API returned no pod") from error
    if not isinstance(uid, str) or not uid:
        raise RestartFailed("the Kubernetes API returned a pod without a uid")
    return uid
