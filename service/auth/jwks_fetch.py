"""Getting an issuer's key set, from a file or over HTTP, within bounds of time and size; blocks."""

import json
import time
from pathlib import Path

import httpx

from service.auth.jwks import InvalidKeySet, is_safe_url, is_url

MAX_BYTES = 256 * 1024
STEP_SECONDS = 3.0  # for connecting, and for each piece
TOTAL_SECONDS = 6.0  # until no further piece is waited for
DISCOVERY = "/.well-known/openid-configuration"


def fetch_key_set(issuer: str, keys: str | None) -> bytes:
    """The key set at a URL or in a file; without either, the one that the issuer says is its own."""
    if keys is None:
        return _fetch(_discovered(issuer))
    return _fetch(keys) if is_url(keys) else _read(Path(keys).expanduser())


def _discovered(issuer: str) -> str:
    try:
        told = json.loads(_fetch(issuer.rstrip("/") + DISCOVERY))
    except (ValueError, RecursionError) as error:
        raise InvalidKeySet("the issuer's configuration is no JSON") from error
    # It must speak of itself: else one issuer could bring another's keys, or be brought by a careless proxy.
    if not isinstance(told, dict) or told.get("issuer") != issuer:
        raise InvalidKeySet("the configuration found there is another issuer's")
    place = told.get("jwks_uri")
    if not isinstance(place, str):
        raise InvalidKeySet("the issuer's configuration names no key set")
    return place


def _fetch(url: str) -> bytes:
    if not is_safe_url(url):
        raise InvalidKeySet("keys are fetched by https, or from this machine: name a file instead")
    latest = time.monotonic() + TOTAL_SECONDS
    body = bytearray()
    try:
        with (
            httpx.Client(timeout=STEP_SECONDS, follow_redirects=False) as client,
            client.stream("GET", url, headers={"Accept": "application/json", "Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise InvalidKeySet(f"the answer was {answer.status_code}")
            for piece in answer.iter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    raise InvalidKeySet(f"more than {MAX_BYTES} bytes came")
                if time.monotonic() > latest:
                    raise InvalidKeySet("it came too slowly")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise InvalidKeySet(type(error).__name__) from error
    return bytes(body)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            document = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidKeySet(error.strerror or type(error).__name__) from error
    if len(document) > MAX_BYTES:
        raise InvalidKeySet(f"the file has more than {MAX_BYTES} bytes")
    return document
