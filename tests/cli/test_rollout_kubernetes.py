"""Pods are deleted over the API of Kubernetes: its documented requests, at a server over TLS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from broker_ctl.cli.rollout_driver import KubernetesHook
from broker_ctl.errors import RestartFailed
from tests.support.http.certificates import TLS, serving_context
from tests.support.http.web_server import serving
from tests.support.security.authority import issue

POD = "/api/v1/namespaces/brokers/pods/{name}"


class Kubernetes:
    """Pods of one StatefulSet, as the API shows them: a deleted one returns with another uid.

    Attributes:
        deletions: bodies of the requests to delete.
        tokens: what each request was authenticated with.
        gone_for: reads after a deletion until the new pod is there; negative: it never is.
    """

    def __init__(self) -> None:
        self.uids = {"broker-0": "uid-1"}
        self.owner = "broker"
        self.deletions: list[Any] = []
        self.tokens: list[str] = []
        self.gone_for = 1
        self.is_forbidden = False
        self.replaced_before_deletion = False
        self._absent = 0

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get(POD, self.read)
        app.router.add_delete(POD, self.delete)
        return app

    async def read(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers.get("Authorization", ""))
        name = request.match_info["name"]
        if self._absent:
            self._absent -= self._absent > 0
            return status(404, f'pods "{name}" not found')
        if name not in self.uids:
            return status(404, f'pods "{name}" not found')
        owner = {"kind": "StatefulSet", "name": self.owner, "controller": True}
        metadata = {"name": name, "uid": self.uids[name], "ownerReferences": [owner]}
        pod = {"kind": "Pod", "metadata": metadata}
        if self.replaced_before_deletion:
            self.uids[name] = "uid-2"
        return web.json_response(pod)

    async def delete(self, request: web.Request) -> web.Response:
        name, body = request.match_info["name"], await request.json()
        if self.is_forbidden:
            return status(403, f'pods "{name}" is forbidden: User "x" cannot delete it')
        self.deletions.append(body)
        if body["preconditions"]["uid"] != self.uids[name]:
            return status(409, "Precondition failed: UID in precondition")
        self.uids[name] = f"uid-{len(self.deletions) + 1}"
        self._absent = self.gone_for
        return web.json_response({"kind": "Pod", "metadata": {"name": name, "uid": "uid-1"}})


def status(code: int, message: str) -> web.Response:
    return web.json_response(
        {"kind": "Status", "status": "Failure", "message": message, "code": code}, status=code
    )


@asynccontextmanager
async def cluster(tmp_path: Path, timeout_s: float = 20.0) -> AsyncIterator[Any]:
    (tmp_path / "token").write_text("secret-1\n", encoding="utf-8")
    (tmp_path / "namespace").write_text("brokers", encoding="utf-8")
    (tmp_path / "ca.crt").write_bytes((TLS / "certificate.pem").read_bytes())
    kubernetes = Kubernetes()
    async with serving(kubernetes.application(), ssl=serving_context()) as url:
        yield kubernetes, KubernetesHook("broker", url, tmp_path, timeout_s)


BROKER = "broker-0.brokers.svc.cluster.local:8080"


async def test_a_pod_is_deleted_under_its_uid_and_awaited_with_another_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (kubernetes, hook):
        await hook.restart(BROKER)
        assert kubernetes.deletions == [
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-1"}}
        ]
        assert kubernetes.uids == {"broker-0": "uid-2"}
        assert set(kubernetes.tokens) == {"Bearer secret-1"}


async def test_the_token_is_read_for_each_request(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (kubernetes, hook):
        await hook.restart(BROKER)
        (tmp_path / "token").write_text("secret-2", encoding="utf-8")
        kubernetes.tokens.clear()
        await hook.restart(BROKER)
        assert set(kubernetes.tokens) == {"Bearer secret-2"}


async def test_a_pod_that_was_replaced_meanwhile_is_not_deleted_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (kubernetes, hook):
        kubernetes.replaced_before_deletion = True
        await hook.restart(BROKER)
        assert len(kubernetes.deletions) == 1
        assert kubernetes.uids == {"broker-0": "uid-2"}


async def test_a_pod_of_another_owner_is_never_deleted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (kubernetes, hook):
        kubernetes.owner = "ledgers"
        with pytest.raises(RestartFailed, match="broker-0 is not one of StatefulSet broker"):
            await hook.restart(BROKER)
        assert kubernetes.deletions == []


async def test_a_refusal_is_quoted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (kubernetes, hook):
        kubernetes.is_forbidden = True
        with pytest.raises(RestartFailed, match='cannot be deleted: pods "broker-0" is forbidden'):
            await hook.restart(BROKER)


async def test_a_pod_that_does_not_return_fails_the_restart(tmp_path: Path) -> None:
    async with cluster(tmp_path, timeout_s=0.3) as (kubernetes, hook):
        kubernetes.gone_for = -1
        with pytest.raises(RestartFailed, match="no other pod broker-0 within"):
            await hook.restart(BROKER)


@pytest.mark.parametrize(
    ("broker_id", "why"),
    [
        ("broker-9.brokers:8080", "there is no pod broker-9"),
        ("10.0.0.1:8080", "there is no pod 10"),
        ("..%2f..:8080", "is not the name of a pod"),
        ("-.brokers:8080", "is not the name of a pod"),
    ],
)
async def test_a_broker_without_a_pod_is_named(tmp_path: Path, broker_id: str, why: str) -> None:
    async with cluster(tmp_path) as (_, hook):
        with pytest.raises(RestartFailed, match=why):
            await hook.restart(broker_id)


async def test_a_file_that_is_missing_and_a_server_that_is_away_are_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, hook):
        (tmp_path / "token").unlink()
        with pytest.raises(RestartFailed, match="token cannot be read"):
            await hook.restart(BROKER)
    (tmp_path / "token").write_text("x", encoding="utf-8")
    with pytest.raises(RestartFailed, match="does not answer"):
        await hook.restart(BROKER)


async def test_an_api_server_that_the_ca_does_not_prove_gets_no_token(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (kubernetes, hook):
        other = issue(tmp_path / "other").authority
        (tmp_path / "ca.crt").write_bytes(other.read_bytes())
        with pytest.raises(RestartFailed, match="does not answer"):
            await hook.restart(BROKER)
        assert kubernetes.tokens == []
