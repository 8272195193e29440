"""To which brokers a console sends the token of its client."""

from pathlib import Path

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, ClientForwarding, Dependencies
from broker_ctl.security.cluster_key import new_key_line
from tests.support.daemon.in_memory_daemon import InMemory, running
from tests.support.security.replaced_files import replace
from tests.support.time.waiting import eventually


class Observed(InMemory):
    """As `InMemory`; it keeps what the server is given."""

    forwarding: ClientForwarding | None = None

    def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
        self.forwarding = dependencies.forwarding
        return super().api(dependencies, rules)


@pytest.mark.parametrize(("mode", "is_proven"), [("accept", False), ("require", True)])
async def test_a_signature_proves_a_registered_broker_where_all_are_required(
    mode: str, is_proven: bool, tmp_path: Path
) -> None:
    key = tmp_path / "cluster.key"
    replace(key, new_key_line().encode())
    around = Observed()
    async with running(f"clusterKeyFile={key}", f"znodeSignatures={mode}", around=around) as run:
        forwarding = around.forwarding
        assert forwarding is not None
        # The broker itself may not have read its registration yet.
        own_id = run.assembly.foundation.urls.broker_id
        await eventually(lambda: run.assembly.coordination.registry.peer(own_id) is not None)
        assert forwarding.is_proven(own_id) == is_proven
        # Pulsar's registry, in which brokers are, too, is not signed.
        assert not forwarding.is_proven("other:8080")
