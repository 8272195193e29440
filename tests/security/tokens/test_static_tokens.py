"""A file of tokens: one secret is one role's, and daemon and command line read the same in it."""

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.cli.main import main
from broker_ctl.errors import SettingsError
from broker_ctl.security.authentication import Evidence, Principal, Proof
from broker_ctl.security.static_tokens import StaticTokens, hash_token
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


RANDOM = "kG5fEw8ZbQ2yT7uV4hS0nC9pJ3xL6mRd"


def test_a_line_with_a_hash_proves_the_role_of_its_token_and_shows_no_token() -> None:
    text = f"admin:{hash_token(RANDOM)}\nreader:{LONG}\n"
    tokens = StaticTokens.parse(text)
    assert tokens.authenticate(Evidence(RANDOM.encode())) == Principal("admin", Proof.STATIC_TOKEN)
    assert tokens.authenticate(Evidence(LONG.encode())) == Principal("reader", Proof.STATIC_TOKEN)
    for wrong in (hash_token(RANDOM), RANDOM[:-1], RANDOM + "x", ""):
        assert tokens.authenticate(Evidence(wrong.encode())) is None
    assert RANDOM not in text
    # Nothing to sign with: what is in the file is not a secret that clients lack.
    assert [*tokens.of_roles(["admin"])] == []
    assert tokens.first_of(["admin"]) == ""


def test_the_hash_of_nothing_admits_nobody() -> None:
    tokens = StaticTokens.parse(f"admin:$sha256${hashlib.sha256(b'').hexdigest()}")
    assert tokens.authenticate(Evidence()) is None


@pytest.mark.parametrize("digits", ["0" * 63, "0" * 65, "g" * 64, "A" * 64, hash_token(RANDOM)])
def test_a_malformed_hash_is_refused(digits: str) -> None:
    with pytest.raises(SettingsError, match="line 1: 64 hexadecimal digits"):
        StaticTokens.parse(f"admin:$sha256${digits}")


@pytest.mark.parametrize("order", [0, 1])
def test_a_hash_of_the_token_of_another_role_is_refused(order: int) -> None:
    lines = [f"admin:{hash_token(RANDOM)}", f"reader:{RANDOM}"]
    with pytest.raises(SettingsError, match="another role"):
        StaticTokens.parse("\n".join(lines[::-1] if order else lines))


@pytest.mark.parametrize("token", [LONG, "ab" * 30, "with blanks " * 5, "ü" * 40, ""])
def test_a_token_that_could_be_guessed_is_not_hashed(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        hash_token(token)


def test_the_command_line_sends_no_hash(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"admin:{hash_token(RANDOM)}\n", encoding="ascii")
    file.chmod(0o600)
    words = ["status", "--url", "http://127.0.0.1:9", "--token-file", str(file)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "the hash of a token" in result.output
