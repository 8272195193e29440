"""What few daemons need is not imported before a daemon is ready: it would delay every start."""

import re
from typing import Final

import pytest

from broker_ctl.http_client import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of
from tests.support.time.waiting import eventually

# Packages and modules, with the settings that need them.
NOT_BEFORE_READY: Final = {
    "cryptography": "TLS, and tokens that are verified with public keys",
    "jwt": "authenticationProviders with JSON Web Tokens",
    "broker_ctl.security.openid": "authenticationProviders with OpenID Connect",
    "broker_ctl.attach.attached": "attach, beside a Pulsar cluster",
    "broker_ctl.daemon.secrets": "broker-ctl secrets check",
    "broker_ctl.lab.embedded": "quickstart and its servers",
    "broker_ctl.pipeline": "pipeline jobs",
    "broker_ctl.lab.memory_store": "tests",
    "opentelemetry": "openTelemetryTracesEndpoint",
    "numpy": "the first view of a leader",
    "pyarrow": "pipeline jobs and traces",
    "pyspark": "pipeline jobs",
    "rich": "output of commands",
}
# As Python's option -X importtime writes it.
_IMPORT: Final = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)


async def test_a_daemon_is_ready_without_what_its_settings_do_not_need(
    new_cluster: NewCluster, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    async with new_cluster(2) as daemons:
        await daemons.wait_ready(http)
        leader, _ = await eventually(lambda: leader_of(http, daemons.all))
        # A leader takes views, with numpy, perhaps before it is seen to be ready.
        (daemon,) = (each for each in daemons.all if each is not leader)
        imported = set(_IMPORT.findall(daemon.files.log.read_text()))
    assert "broker_ctl.daemon.lifecycle.lifecycle" in imported
    early = [
        name
        for name in sorted(imported)
        if any(name == each or name.startswith(f"{each}.") for each in NOT_BEFORE_READY)
    ]
    assert early == []
