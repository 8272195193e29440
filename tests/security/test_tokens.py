"""A file of tokens: one secret is one role's, and daemon and command line read the same in it."""

from pathlib import Path

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.errors import SettingsError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.principal import Principal, Proof
from broker_ctl.security.static_tokens import StaticTokens
from tests.support.clusters.cli_cluster import running
from tests.support.clusters.fake_services import CLUSTER
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting

LONG = "0123456789abcdef"


@pytest.mark.parametrize(
    "secret", [LONG, f"{LONG}:with:colons", f":{LONG}", f"{LONG}:", f"{LONG}#x"]
)
def test_the_command_line_sends_the_token_that_the_daemon_has_read(
    secret: str, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# roles\n\nadmin : {secret} \nreader:fedcba9876543210\n", encoding="ascii")
    file.chmod(0o600)
    rules = ApiRules(CLUSTER, **admitting(file.read_text("ascii"), ["admin"]))
    with running([free_port(), free_port()], rules) as cluster:
        result = cluster.run("status", "--token-file", str(file))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("order", [("admin", "reader"), ("reader", "admin")])
def test_a_secret_of_two_roles_is_refused(order: tuple[str, str]) -> None:
    text = "# of all\n" + "".join(f"{role}:{LONG}\n" for role in order)
    with pytest.raises(SettingsError) as refused:
        StaticTokens.parse(text)
    message = str(refused.value)
    assert message.startswith("tokenSecretKeyFile, line 3: ")
    assert "line 2" in message
    assert LONG not in message


def test_a_line_that_occurs_twice_changes_nothing() -> None:
    tokens = StaticTokens.parse(f"admin:{LONG}\nadmin:{LONG}\n")
    found = tokens.authenticate(Evidence(LONG.encode()))
    assert found == Principal("admin", Proof.STATIC_TOKEN)
