"""The Python client of Pulsar signs in at a whole daemon, and is granted what Pulsar grants."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from broker_ctl.daemon.wiring.tls import KeyPair, PemFile, client_context
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from tests.support.security.sign_in import (
    CONSUMER,
    PARTITIONS,
    STRANGER,
    SUPER_USER,
    TOPIC,
    Credential,
    SignIn,
    signing_in,
)
from tests.support.time.waiting import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

pulsar: Any = importlib.import_module("pulsar")

LOOKUP = f"/lookup/v2/topic/{TOPIC.replace('://', '/')}"
KINDS = ("jwt", "certificate")
# With this client's word for a lookup that is not allowed; over HTTP it has one for all errors.
SCHEMES = {"pulsar+ssl": "AuthorizationError", "https": "ConnectError"}
REFUSED_AFTER_S = 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sign_in(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SignIn]:
    async with signing_in(tmp_path_factory.mktemp("sign-in")) as found:
        yield found


def partitions(found: SignIn, url: str, shown: Credential, limit_s: int) -> int:
    """The number of partitions that a client finds."""
    authentication = None
    if shown.token:
        authentication = pulsar.AuthenticationToken(shown.token)
    elif shown.files is not None:
        files = shown.files
        authentication = pulsar.AuthenticationTLS(str(files.certificate), str(files.key))
    client = pulsar.Client(
        url,
        authentication=authentication,
        tls_trust_certs_file_path=str(found.server.authority),
        operation_timeout_seconds=limit_s,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
    )
    try:
        return len(client.get_topic_partitions(TOPIC))
    finally:
        client.close()


async def result(found: SignIn, scheme: str, shown: Credential, limit_s: int = 20) -> object:
    """The number of partitions, or the name of the error."""
    try:
        return await asyncio.to_thread(partitions, found, found.url(scheme), shown, limit_s)
    except pulsar.PulsarException as refused:
        return str(refused.args[0]) if refused.args else type(refused).__name__


async def http_status(found: SignIn, shown: Credential, path: str = LOOKUP) -> int:
    """The status of a lookup over HTTP; 0: the connection was refused."""
    own = None
    if shown.files is not None:
        own = KeyPair(PemFile("c", shown.files.certificate), PemFile("k", shown.files.key))
    tls = client_context(PemFile("ca", found.server.authority), own)
    token = shown.token or None
    async with HttpClient(
        token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=tls
    ) as http:
        try:
            return (await http.request("GET", found.url("https") + path)).status
        except HttpError:
            return 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_roles_with_a_grant_find_a_topic_and_others_do_not(
    sign_in: SignIn, kind: str, scheme: str
) -> None:
    for role in (CONSUMER, SUPER_USER):
        assert await result(sign_in, scheme, sign_in.of_role[role, kind]) == PARTITIONS
    refused = await result(sign_in, scheme, sign_in.of_role[STRANGER, kind])
    assert SCHEMES[scheme] in str(refused)


@pytest.mark.parametrize("kind", KINDS)
async def test_lookups_and_super_users_rights_over_http(sign_in: SignIn, kind: str) -> None:
    of_role = {role: sign_in.of_role[role, kind] for role in (CONSUMER, STRANGER, SUPER_USER)}
    found = {role: await http_status(sign_in, shown) for role, shown in of_role.items()}
    assert found == {CONSUMER: 200, STRANGER: 403, SUPER_USER: 200}
    found = {
        role: await http_status(sign_in, shown, "/admin/v2/tenants")
        for role, shown in of_role.items()
    }
    assert found == {CONSUMER: 403, STRANGER: 403, SUPER_USER: 200}


async def test_each_kind_of_wrong_credential_is_refused(sign_in: SignIn) -> None:
    cases = [(scheme, name) for scheme in SCHEMES for name in sign_in.wrong]
    # Whatever goes wrong in a handshake, this client tries again until its time is up.
    async with asyncio.TaskGroup() as group:
        tasks = {
            case: group.create_task(
                result(sign_in, case[0], sign_in.wrong[case[1]], REFUSED_AFTER_S), name=str(case)
            )
            for case in cases
        }
    assert [case for case, task in tasks.items() if task.result() == PARTITIONS] == []
    statuses = {name: await http_status(sign_in, shown) for name, shown in sign_in.wrong.items()}
    assert set(statuses.values()) <= {0, 401}, statuses
