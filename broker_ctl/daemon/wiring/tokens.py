"""Wiring of tokens: keys of JSON Web Tokens, and OpenID providers."""

import logging
import random
from collections.abc import Callable
from pathlib import Path

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.keys import issuer_tls
from broker_ctl.errors import SettingsError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.security.jwt import MAX_BYTES, JwtKey, JwtRules, JwtTokens, KeySet
from broker_ctl.security.key_source import KeySource
from broker_ctl.security.openid import OpenIdRules, OpenIdTokens
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import OPENID
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import Guard

log = logging.getLogger(__name__)

# The provider of JSON Web Tokens, from the settings.


def build_jwt_tokens(settings: Settings, now_s: Callable[[], float]) -> JwtTokens | None:
    """The provider; None: no key is set.

    Raises:
        SettingsError: a key that cannot be read, or is not a key.
    """
    jwt = settings.jwt
    key = read_jwt_key(settings) if jwt.jwks_file is None else _read_jwks(jwt.jwks_file)
    if key is None:
        return None
    rules = JwtRules(
        key, jwt.role_claim or "sub", jwt.audience_claim or "aud", jwt.audience, jwt.clock_skew_s
    )
    return JwtTokens(rules, now_s)


def read_jwt_key(settings: Settings) -> JwtKey | None:
    """The key that the settings name; None: none is set.

    Raises:
        SettingsError: a key that cannot be read, or is not a key.
    """
    jwt = settings.jwt
    if jwt.secret_key is not None:
        return _read("tokenSecretKey", jwt.secret_key, JwtKey.secret)
    if jwt.public_key is None:
        return None
    algorithm = jwt.public_algorithm.value
    return _read("tokenPublicKey", jwt.public_key, lambda key: JwtKey.public(key, algorithm))


def _read_jwks(path: Path) -> KeySet:
    try:
        return KeySet.parse(read_guarded(path))
    except OSError as error:
        raise SettingsError(f"tokenJwksFile={path}: {error.strerror or error}") from error
    except SettingsError as error:
        raise SettingsError(f"tokenJwksFile={path}: {error}") from error


def _read(key: str, source: KeySource, parse: Callable[[bytes], JwtKey]) -> JwtKey:
    def warn(text: str) -> None:
        log.warning("%s=%s: %s", key, source, text)

    try:
        if source.path is None:
            return parse(source.decode())
        is_secret = DECLARATIONS[key].setting.guard is Guard.SECRET
        return parse(read_guarded(source.path, warn if is_secret else None))
    except OSError as error:
        raise SettingsError(f"{key}={source}: {error.strerror or error}") from error
    except SettingsError as error:
        raise SettingsError(f"{key}={source}: {error}") from error


# The provider of tokens of OpenID Connect issuers, from the settings.


def build_openid_tokens(
    settings: Settings, clock: Clock, reloader: Reloader
) -> OpenIdTokens | None:
    """The provider; None: it is not wanted.

    Raises:
        SettingsError: certificates that cannot be read.
    """
    if not OPENID.holds(settings):
        return None
    openid = settings.openid
    rules = OpenIdRules(
        issuers=openid.issuers,
        audiences=frozenset(openid.audiences),
        role_claim=openid.role_claim,
        leeway_s=float(openid.clock_skew_s),
        refresh_s=float(openid.refresh_s),
        expiry_s=float(openid.expiry_s),
        miss_refresh_s=float(openid.miss_refresh_s),
    )
    http = HttpClient(
        timeout_s=openid.read_timeout_s,
        max_body_bytes=MAX_BYTES,
        ssl=issuer_tls(settings, reloader),
    )
    # For the pause before another attempt.
    return OpenIdTokens(rules, http, clock, random.SystemRandom())
