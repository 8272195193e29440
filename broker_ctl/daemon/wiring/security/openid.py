"""The provider of tokens of OpenID Connect issuers, from the settings."""

import random

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.security.rotation import issuer_tls
from broker_ctl.http_client import HttpClient
from broker_ctl.security.jwks import MAX_BYTES
from broker_ctl.security.openid.issuer import OpenIdRules
from broker_ctl.security.openid.provider import OpenIdTokens
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import OPENID
from broker_ctl.settings.root import Settings


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
