"""JWTs of one issuer: what must hold before anybody asks SQL who the subject is. Roles and rights are never in one."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from registry.access.credentials import OidcCredential
from registry.access.oidc_subjects import is_subject
from registry.errors import Unauthenticated
from service.auth.jwks import parse_key_set
from service.auth.jwks_cache import JwksCache
from service.auth.jwks_fetch import fetch_key_set
from service.settings import ServiceSettings

MAX_LENGTH = 8192
MAX_KID_LENGTH = 200
MAX_LIFETIME = timedelta(days=36500)
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})  # else it is a document for another purpose
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True)
class JwtPolicy:
    """What every JWT must say."""

    issuer: str
    audience: str
    algorithms: Collection[str]
    leeway_s: float


class OidcIssuer:
    """Believes what is signed by the issuer's keys, for this audience, now."""

    def __init__(self, expected: JwtPolicy, keyring: JwksCache) -> None:
        self._expected = expected
        self._keyring = keyring

    async def verify(self, text: str) -> OidcCredential:
        """The subject that the JWT is of; Unauthenticated, whichever rule it breaks."""
        # The length first: nothing of a text that is too long is read.
        if len(text) > MAX_LENGTH or _JWT.fullmatch(text) is None:
            raise Unauthenticated
        kid, algorithm = self._key_named_in(text)
        key = await self._keyring.find(kid, algorithm)
        if key is None:
            raise Unauthenticated
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[algorithm],  # which is the key's own, and allowed
                audience=self._expected.audience,
                issuer=self._expected.issuer,
                leeway=self._expected.leeway_s,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except PyJWTError as error:
            raise Unauthenticated from error
        return self._proof_of(claims)

    def _key_named_in(self, text: str) -> tuple[str | None, str]:
        """The id and algorithm of the key that the JWT says it was signed with."""
        try:
            header = jwt.get_unverified_header(text)
        except PyJWTError as error:
            raise Unauthenticated from error
        kid, algorithm, kind = header.get("kid"), header.get("alg"), header.get("typ", "jwt")
        # An extension that must be understood is one that nobody here understands.
        if "crit" in header or not isinstance(kind, str) or kind.lower() not in TYPES:
            raise Unauthenticated
        if not isinstance(algorithm, str) or algorithm not in self._expected.algorithms:
            raise Unauthenticated
        if kid is not None and not (isinstance(kid, str) and len(kid) <= MAX_KID_LENGTH):
            raise Unauthenticated
        return kid, algorithm

    def _proof_of(self, claims: dict[str, Any]) -> OidcCredential:  # Any: whatever JSON has
        subject = claims["sub"]
        if not isinstance(subject, str) or not is_subject(subject):
            raise Unauthenticated
        lasts_s = min(int(claims["exp"]) + self._expected.leeway_s, _latest().timestamp())
        return OidcCredential(self._expected.issuer, subject, datetime.fromtimestamp(lasts_s, UTC))


def open_issuer(settings: ServiceSettings) -> OidcIssuer | None:
    """The issuer that the settings name, if they do; its keys are fetched when the first JWT comes."""
    if settings.oidc_issuer is None:
        return None
    assert settings.oidc_audience is not None  # the settings refuse an issuer without
    issuer, place, algorithms = settings.oidc_issuer, settings.oidc_keys, settings.allowed_algorithms
    keyring = JwksCache(lambda: parse_key_set(fetch_key_set(issuer, place), algorithms), settings.oidc_refresh_s)
    return OidcIssuer(JwtPolicy(issuer, settings.oidc_audience, algorithms, settings.oidc_leeway_s), keyring)


def _latest() -> datetime:
    # Databases and clocks end somewhere; a JWT of a century is as good as one of a thousand years.
    return datetime.now(UTC) + MAX_LIFETIME
