"""Verify the JWTs of an OIDC issuer. They only prove a subject; SQL has its user, role and rights."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from alacarte.api.limits import MAX_TOKEN_LIFETIME
from registry.access.oidc_subjects import OidcCredential, is_subject
from registry.errors import Unauthenticated
from service.auth.jwks import parse_key_set
from service.auth.jwks_cache import JwksCache
from service.auth.jwks_fetch import fetch_key_set
from service.settings import ServiceSettings

MAX_LENGTH = 8192
MAX_KID_LENGTH = 200
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})  # others are not access tokens
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True)
class JwtPolicy:
    """What every JWT must contain."""

    issuer: str
    audience: str
    algorithms: Collection[str]
    leeway_s: float


class OidcIssuer:
    """Verifies JWTs by the issuer's keys, audience and time."""

    def __init__(self, policy: JwtPolicy, keys: JwksCache) -> None:
        self._policy = policy
        self._keys = keys

    async def verify(self, text: str) -> OidcCredential:
        """Return the subject that the JWT proves; Unauthenticated if it breaks any rule."""
        # The length first: a text that is too long is not parsed.
        if len(text) > MAX_LENGTH or _JWT.fullmatch(text) is None:
            raise Unauthenticated
        kid, algorithm = self._parse_header(text)
        key = await self._keys.find(kid, algorithm)
        if key is None:
            raise Unauthenticated
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[algorithm],  # the key is bound to it, and it is allowed
                audience=self._policy.audience,
                issuer=self._policy.issuer,
                leeway=self._policy.leeway_s,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except PyJWTError as error:
            raise Unauthenticated from error
        return self._to_credential(claims)

    def _parse_header(self, text: str) -> tuple[str | None, str]:
        """Return the id and the algorithm of the key that the JWT names."""
        try:
            header = jwt.get_unverified_header(text)
        except PyJWTError as error:
            raise Unauthenticated from error
        kid, algorithm, kind = header.get("kid"), header.get("alg"), header.get("typ", "jwt")
        # `crit` lists extensions that must be understood; this service understands none.
        if "crit" in header or not isinstance(kind, str) or kind.lower() not in TYPES:
            raise Unauthenticated
        if not isinstance(algorithm, str) or algorithm not in self._policy.algorithms:
            raise Unauthenticated
        if kid is not None and not (isinstance(kid, str) and len(kid) <= MAX_KID_LENGTH):
            raise Unauthenticated
        return kid, algorithm

    def _to_credential(self, claims: dict[str, Any]) -> OidcCredential:  # Any: whatever JSON has
        subject = claims["sub"]
        if not isinstance(subject, str) or not is_subject(subject):
            raise Unauthenticated
        expires_s = min(int(claims["exp"]) + self._policy.leeway_s, _latest_expiry().timestamp())
        return OidcCredential(self._policy.issuer, subject, datetime.fromtimestamp(expires_s, UTC))


def open_issuer(settings: ServiceSettings) -> OidcIssuer | None:
    """Return the issuer of the settings, if there is one; its keys are fetched with the first JWT."""
    if settings.oidc_issuer is None:
        return None
    assert settings.oidc_audience is not None  # the settings require it with an issuer
    issuer, keys, algorithms = settings.oidc_issuer, settings.oidc_keys, settings.allowed_algorithms
    cache = JwksCache(lambda: parse_key_set(fetch_key_set(issuer, keys), algorithms), settings.oidc_refresh_s)
    return OidcIssuer(JwtPolicy(issuer, settings.oidc_audience, algorithms, settings.oidc_leeway_s), cache)


def _latest_expiry() -> datetime:
    # Databases and clocks have a last date, which a JWT may exceed.
    return datetime.now(UTC) + MAX_TOKEN_LIFETIME
