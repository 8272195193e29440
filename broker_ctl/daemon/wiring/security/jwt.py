"""The provider of JSON Web Tokens, from the settings."""

import logging
from collections.abc import Callable
from pathlib import Path

from broker_ctl.errors import SettingsError
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.security.jwks import KeySet
from broker_ctl.security.jwt_keys import JwtKey
from broker_ctl.security.jwt_tokens import JwtRules, JwtTokens
from broker_ctl.security.key_source import KeySource
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.schema import Guard

log = logging.getLogger(__name__)


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
