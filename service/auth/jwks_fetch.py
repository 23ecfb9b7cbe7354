"""Fetch an issuer's key set from a file or over HTTP, with limits on time and size; blocks."""

import json
import time
from pathlib import Path

import httpx

from service.auth.jwks import InvalidKeySet, is_safe_url, is_url

MAX_BYTES = 256 * 1024
STEP_TIMEOUT_S = 3.0  # for connecting, and for each chunk
TOTAL_TIMEOUT_S = 6.0  # checked after each chunk
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
DISCOVERY = "/.well-known/openid-configuration"


def fetch_key_set(issuer: str, location: str | None) -> bytes:
    """Return the key set at a URL or in a file; without a location, the one in the issuer's discovery document."""
    if location is None:
        return _fetch(_discover_jwks_uri(issuer))
    return _fetch(location) if is_url(location) else _read_file(Path(location).expanduser())


def _discover_jwks_uri(issuer: str) -> str:
    try:
        document = json.loads(_fetch(issuer.rstrip("/") + DISCOVERY))
    except (ValueError, RecursionError) as error:
        raise InvalidKeySet("the issuer's discovery document is not JSON") from error
    # It must name this issuer: else a misrouted request could bring another issuer's keys.
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise InvalidKeySet("the discovery document is another issuer's")
    uri = document.get("jwks_uri")
    if not isinstance(uri, str):
        raise InvalidKeySet("the issuer's discovery document has no jwks_uri")
    return uri


def _fetch(url: str) -> bytes:
    if not is_safe_url(url):
        raise InvalidKeySet("keys are fetched over https or from localhost only: use a file instead")
    deadline = time.monotonic() + TOTAL_TIMEOUT_S
    body = bytearray()
    try:
        with (
            httpx.Client(timeout=STEP_TIMEOUT_S, follow_redirects=False) as client,
            client.stream("GET", url, headers=HEADERS) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise InvalidKeySet(f"the response status is {response.status_code}")
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise InvalidKeySet(f"the response is larger than {MAX_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise InvalidKeySet("the response is too slow")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise InvalidKeySet(type(error).__name__) from error
    return bytes(body)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            document = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidKeySet(error.strerror or type(error).__name__) from error
    if len(document) > MAX_BYTES:
        raise InvalidKeySet(f"the file is larger than {MAX_BYTES} bytes")
    return document
