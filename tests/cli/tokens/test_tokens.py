"""``broker-ctl tokens``: keys and tokens as Pulsar's own tool makes and reads them."""

import base64
import hashlib
import hmac
import json
import stat
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_der_public_key

from broker_ctl.cli.main import main
from broker_ctl.clock import SystemClock
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.jwt import JwtKey, JwtRules, JwtTokens
from broker_ctl.security.static_tokens import StaticTokens

# Of Pulsar's documentation (security-jwt): header, claims, signature.
PULSARS: Final = (
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJKb2UifQ.ipevRNuRP6HflG8cFKnmUPtypruRC4fb1DWtoLL62SY"
)


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["tokens", *words], input=stdin, env={"TOKEN": None})


def succeed(*words: str, stdin: str | None = None) -> str:
    result = run(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(code: int, *words: str, stdin: str | None = None) -> str:
    result = run(*words, stdin=stdin)
    assert result.exit_code == code, result.output
    return result.stderr


def secret_file(directory: Path) -> str:
    path = directory / "secret.key"
    succeed("create-secret-key", "--output", str(path))
    return f"file://{path}"


def role_of(key: JwtKey, token: str) -> str | None:
    tokens = JwtTokens(JwtRules(key), lambda: SystemClock().wall_ms() / 1000)
    found = tokens.authenticate(Evidence(token.strip().encode()))
    return None if found is None else found.role


@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_key_is_random_bytes_that_only_its_owner_reads(
    algorithm: str, size: int, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        shown = succeed("create-secret-key", "-a", algorithm, "-o", str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert base64.b64encode(path.read_bytes()).decode() not in shown
    assert len(one.read_bytes()) == size
    assert one.read_bytes() != other.read_bytes()


def test_a_key_in_base64_is_for_data_urls(tmp_path: Path) -> None:
    text = succeed("create-secret-key", "--base64")
    assert len(base64.b64decode(text, validate=True)) == 32
    result = run("create", "--secret-key", f"data:;base64,{text}", "--subject", "a")
    assert role_of(JwtKey.secret(base64.b64decode(text)), result.stdout) == "a"
    assert "every user of this machine can see the key" in result.stderr
    assert text not in result.stderr


def test_no_file_is_replaced_and_none_is_named_json(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("in use", encoding="ascii")
    assert "File exists" in fail(1, "create-secret-key", "--output", str(path))
    assert "./json" in fail(2, "create-secret-key", "--output", "json")
    private = tmp_path / "private"
    words = ("--output-private-key", str(private), "--output-public-key", str(path))
    assert "File exists" in fail(1, "create-key-pair", *words)
    assert path.read_text(encoding="ascii") == "in use"
    # Half a pair is not left.
    assert not private.exists()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "ES384", "ES512"])
def test_a_pair_signs_what_a_broker_with_the_public_key_accepts(
    algorithm: str, tmp_path: Path
) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    words = ("--output-private-key", str(private), "--output-public-key", str(public))
    shown = json.loads(succeed("create-key-pair", "-a", algorithm, *words, "--output", "json"))
    assert shown == {"private_key": str(private), "public_key": str(public), "algorithm": algorithm}
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    # The formats that Pulsar reads: PKCS#8 and X.509, both in DER.
    load_der_private_key(private.read_bytes(), password=None)
    load_der_public_key(public.read_bytes())
    token = succeed("create", "-pk", f"file://{private}", "-s", "client", "-e", "1h")
    assert role_of(JwtKey.public(public.read_bytes(), algorithm), token) == "client"
    checked = ("validate", "--public-key", str(public), "-a", algorithm, "--stdin")
    assert json.loads(succeed(*checked, stdin=token))["sub"] == "client"


@pytest.mark.parametrize(
    ("size", "algorithm"), [(32, "HS256"), (47, "HS256"), (48, "HS384"), (64, "HS512")]
)
def test_a_secret_signs_with_the_algorithm_of_its_length(
    size: int, algorithm: str, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_bytes(bytes(range(size)))
    path.chmod(0o600)
    words = ("create", "--secret-key", str(path), "--subject", "admin", "-e", "1d")
    made = json.loads(succeed(*words, "--output", "json"))
    assert made["algorithm"] == algorithm
    assert role_of(JwtKey.secret(path.read_bytes()), made["token"]) == "admin"


def test_a_token_has_pulsars_claims_and_expires_when_it_should(tmp_path: Path) -> None:
    key = secret_file(tmp_path)
    words = ("create", "--secret-key", key, "-s", "admin", "-hs", "kid=k1")
    before_s = SystemClock().wall_ms() // 1000
    made = json.loads(succeed(*words, "--expiry-time", "3d", "--output", "json"))
    header = jwt.get_unverified_header(made["token"])
    claims = jwt.decode(made["token"], options={"verify_signature": False})
    assert header == {"alg": "HS256", "typ": "JWT", "kid": "k1"}
    assert claims.keys() == {"sub", "exp"}
    assert made["expires_at_ms"] == claims["exp"] * 1000
    assert 3 * 86_400 <= claims["exp"] - before_s <= 3 * 86_400 + 60
    endless = run(*words)
    assert "never expires" in endless.stderr
    assert jwt.decode(endless.stdout.strip(), options={"verify_signature": False}) == {
        "sub": "admin"
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("2m", 120), ("1H", 3600), ("1w", 604_800), ("10y", 315_360_000)],
)
def test_times_are_those_of_pulsar(text: str, seconds: int, tmp_path: Path) -> None:
    key = secret_file(tmp_path)
    before_s = SystemClock().wall_ms() // 1000
    token = succeed("create", "-sk", key, "-s", "a", "-e", text).strip()
    claims = jwt.decode(token, options={"verify_signature": False})
    assert seconds <= claims["exp"] - before_s <= seconds + 60


@pytest.mark.parametrize("text", ["", "0", "-1d", "1mo", "d", "9999999y"])
def test_a_time_that_is_not_one_is_refused(text: str, tmp_path: Path) -> None:
    assert "30m" in fail(2, "create", "-sk", secret_file(tmp_path), "-s", "a", "-e", text)


def test_a_token_in_a_file_is_for_its_owner_and_for_the_other_verbs(tmp_path: Path) -> None:
    key, file = secret_file(tmp_path), tmp_path / "token"
    words = ("create", "-sk", key, "-s", "admin", "-e", "1d", "--output-token", str(file))
    assert file.name not in {path.name for path in tmp_path.iterdir()}
    shown = succeed(*words)
    token = file.read_text(encoding="ascii").strip()
    assert token not in shown
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(succeed("validate", "-sk", key, "-f", str(file)))["sub"] == "admin"
    header, line, claims = succeed("show", "--token-file", str(file)).splitlines()
    assert (json.loads(header)["alg"], line, json.loads(claims)["sub"]) == ("HS256", "---", "admin")


def test_a_token_of_pulsars_documentation_is_shown_and_not_believed(tmp_path: Path) -> None:
    found = json.loads(succeed("show", PULSARS, "--output", "json"))
    assert found == {"is_verified": False, "header": {"alg": "HS256"}, "claims": {"sub": "Joe"}}
    words = ("validate", "-sk", secret_file(tmp_path), PULSARS)
    assert "Signature verification failed" in fail(1, *words)
    result = run(*words, "--output", "json")
    assert json.loads(result.stdout)["is_valid"] is False
    assert result.exit_code == 1


def test_a_token_comes_from_the_environment_too(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["tokens", "show"], env={"TOKEN": PULSARS})
    assert '"Joe"' in done.stdout
    assert "one way" in fail(2, "show", PULSARS, "--stdin", stdin=PULSARS)
    assert "--token-file" in fail(2, "show", "--stdin", stdin="\n")


def forged(header: dict[str, Any], key: bytes) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, {"sub": "admin"})
    ]

    mac = hmac.digest(key, b".".join(parts), hashlib.sha256)
    return b".".join([*parts, base64.urlsafe_b64encode(mac).rstrip(b"=")]).decode()


def test_a_public_key_verifies_no_token_that_it_is_the_secret_of(tmp_path: Path) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    words = ("--output-private-key", str(private), "--output-public-key", str(public))
    succeed("create-key-pair", *words)
    for header in ({"alg": "HS256"}, {"alg": "none"}):
        token = forged(header, public.read_bytes())
        message = fail(1, "validate", "-pk", str(public), token)
        assert "RS256, RS384, RS512" in message


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("create", "-s", "a"), 2, "--secret-key or --private-key"),
        (("create", "-sk", "{key}", "-pk", "{key}", "-s", "a"), 2, "either"),
        (("create", "-pk", "{key}", "-s", "a"), 2, "holds no private key"),
        (("create", "-sk", "{key}", "-a", "HS512", "-s", "a"), 2, "does not fit HS512"),
        (("create", "-sk", "/nowhere", "-s", "a"), 2, "No such file"),
        (("create", "-sk", "secret.key", "-s", "a"), 2, "neither a file: URL"),
        (("create", "-sk", "data:;base64,c2hvcnQ=", "-s", "a"), 2, "at least 32 bytes"),
        (("create", "-sk", "{key}", "-s", ""), 2, "printable"),
        (("create", "-sk", "{key}", "-s", "a", "-hs", "alg=none"), 2, "set by the signature"),
        (("validate", PULSARS), 2, "--secret-key or --public-key"),
        (("validate", "-pk", "{key}", PULSARS), 2, "holds no public key"),
        (("show", "a.b.c"), 1, "not a JSON Web Token"),
    ],
)
def test_mistakes_are_named(words: tuple[str, ...], code: int, says: str, tmp_path: Path) -> None:
    key = secret_file(tmp_path)
    message = fail(code, *(word.format(key=key) for word in words))
    assert says in " ".join(message.split())
    assert "c2hvcnQ" not in message


def test_a_static_token_is_drawn_and_hashed(tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    line = succeed("hash", "admin", "--output-token", str(file))
    token = file.read_text(encoding="ascii").strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in line
    found = StaticTokens.parse(line).authenticate(Evidence(token.encode()))
    assert found is not None
    assert found.role == "admin"
    # The same again from the token.
    assert succeed("hash", "admin", "--token-file", str(file)) == line
    again = json.loads(succeed("hash", "admin", "--stdin", "--output", "json", stdin=token))
    assert again == {"role": "admin", "line": line.strip()}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("admin",), 2, "--output-token"),
        (("a:b", "--stdin"), 2, "no colon"),
        (("admin", "--stdin"), 1, "could be guessed"),
    ],
)
def test_no_hash_is_made_of(words: tuple[str, ...], code: int, says: str) -> None:
    assert says in fail(code, "hash", *words, stdin="0123456789abcdef")
