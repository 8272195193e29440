"""Ways to authenticate, each of which suffices: static tokens, or JSON Web Tokens."""

import base64
import json
from pathlib import Path
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.lifecycle.rehearsal import rehearse
from broker_ctl.daemon.wiring.security import build_authentication, newest_cluster_keys
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.cluster_key import SigningKeys
from broker_ctl.security.jwt import new_key_pair
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.static_tokens import hash_token
from broker_ctl.settings.root import Settings
from tests.support.daemon.in_memory_daemon import settings_of

TOKEN: Final = "kG5fEw8ZbQ2yT7uV4hS0nC9pJ3xL6mRd"
KEY: Final = bytes(range(32))
ON: Final = ("authenticationEnabled=true", "superUserRoles=admin")
BY_SECRET: Final = (*ON, f"tokenSecretKey={base64.b64encode(KEY).decode()}")


def static(directory: Path, secret: str = TOKEN) -> str:
    file = directory / "tokens"
    file.write_text(f"admin:{secret}\n", encoding="ascii")
    file.chmod(0o600)
    return f"tokenSecretKeyFile={file}"


def role_of(settings: Settings, token: str) -> str | None:
    built = build_authentication(settings, SystemClock(), Reloader())
    assert built is not None
    found = built.authenticator.authenticate(Evidence(token.encode()))
    return None if found is None else found.role


def keys_of(settings: Settings) -> SigningKeys | None:
    reloader = Reloader()
    authentication = build_authentication(settings, SystemClock(), reloader)
    return newest_cluster_keys(settings, authentication, reloader)


def problems(settings: Settings) -> list[str]:
    return [str(problem) for problem in rehearse(settings).problems]


def test_a_secret_key_suffices_and_brokers_sign_with_it() -> None:
    settings = settings_of(*BY_SECRET)
    assert problems(settings) == []
    assert role_of(settings, jwt.encode({"sub": "client"}, KEY, "HS256")) == "client"
    assert role_of(settings, TOKEN) is None
    one, other = keys_of(settings), keys_of(settings_of(*BY_SECRET))
    assert one is not None
    assert other is not None
    assert other.verify("use", b"text", one.sign("use", b"text"))


def test_static_tokens_suffice(tmp_path: Path) -> None:
    settings = settings_of(*ON, static(tmp_path))
    assert problems(settings) == []
    assert role_of(settings, TOKEN) == "admin"
    assert role_of(settings, jwt.encode({"sub": "client"}, KEY, "HS256")) is None


def test_brokers_with_both_verify_what_brokers_with_one_of_them_sign(tmp_path: Path) -> None:
    file = static(tmp_path)
    both, by_secret = keys_of(settings_of(*BY_SECRET, file)), keys_of(settings_of(*BY_SECRET))
    by_tokens = keys_of(settings_of(*ON, file))
    assert both is not None
    for keys in (by_secret, by_tokens):
        assert keys is not None
        assert both.verify("use", b"text", keys.sign("use", b"text"))
    assert by_tokens is not None
    assert by_tokens.verify("use", b"text", both.sign("use", b"text"))


def test_super_users_may_all_have_json_web_tokens(tmp_path: Path) -> None:
    file = static(tmp_path)
    assert problems(settings_of(*BY_SECRET, file, "superUserRoles=other")) == []
    assert "none of its roles" in str(problems(settings_of(*ON, file, "superUserRoles=other")))


def test_hashed_tokens_and_a_public_key_are_nothing_to_sign_with(tmp_path: Path) -> None:
    file = static(tmp_path, hash_token(TOKEN))
    public = tmp_path / "public.key"
    public.write_bytes(new_key_pair("ES256").public)
    settings = settings_of(*ON, file, f"tokenPublicKey={public}", "tokenPublicAlg=ES256")
    assert role_of(settings, TOKEN) == "admin"
    (problem,) = problems(settings)
    assert "clusterKeyFile: not set" in problem
    keys = tmp_path / "keys"
    keys.write_text(base64.b64encode(KEY).decode(), encoding="ascii")
    keys.chmod(0o600)
    assert problems(settings_of(*ON, file, f"clusterKeyFile={keys}")) == []


def test_a_set_of_keys_suffices_beside_keys_of_the_cluster(tmp_path: Path) -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    row = {**RSAAlgorithm.to_jwk(private.public_key(), as_dict=True), "kid": "k1"}
    file, keys = tmp_path / "jwks.json", tmp_path / "keys"
    file.write_text(json.dumps({"keys": [row]}), encoding="ascii")
    keys.write_text(base64.b64encode(KEY).decode(), encoding="ascii")
    keys.chmod(0o600)
    settings = settings_of(*ON, f"tokenJwksFile={file}", f"clusterKeyFile={keys}")
    assert problems(settings) == []
    token = jwt.encode({"sub": "client"}, private, "RS256", headers={"kid": "k1"})
    assert role_of(settings, token) == "client"
    file.write_text("{}", encoding="ascii")
    (problem,) = problems(settings)
    assert "is not a JSON Web Key Set" in problem
