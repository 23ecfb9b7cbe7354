"""An OIDC issuer on a real socket, which records its requests."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "alacarte-tests"
DISCOVERY = "/.well-known/openid-configuration"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def new_key(algorithm: str) -> PrivateKey:
    if algorithm.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def jwk_of(key: PrivateKey, kid: str | None, **members: str) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        jwk = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        jwk = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**jwk, **({} if kid is None else {"kid": kid}), **members}


def b64(data: bytes | dict[str, Any]) -> str:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    """Return a JWT that no library would make: signed by HMAC with the secret, or not at all."""
    signed = f"{b64(header)}.{b64(claims)}"
    signature = b"" if secret is None else hmac.digest(secret, signed.encode(), hashlib.sha256)
    return f"{signed}.{b64(signature)}"


class LocalIssuer:
    """The issuer's keys, and its responses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, tuple[str, PrivateKey]] = {}
        self.requests: list[str] = []
        self.answers: dict[str, tuple[int, bytes]] = {}  # that replace the real ones
        self.is_up = True

    def add_key(self, kid: str, algorithm: str) -> None:
        self.keys[kid] = (algorithm, new_key(algorithm))

    def key_set(self) -> bytes:
        return json.dumps({"keys": [jwk_of(key, kid, use="sig") for kid, (_, key) in self.keys.items()]}).encode()

    def answer(self, path: str) -> tuple[int, bytes]:
        self.requests.append(path)
        if not self.is_up:
            return 503, b"unavailable"
        if path in self.answers:
            return self.answers[path]
        if path == DISCOVERY:
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        return (200, self.key_set()) if path == "/keys" else (404, b"")

    def claims(self, subject: str, **changed: Any) -> dict[str, Any]:
        """Return the claims of a valid JWT, with changes; None removes a claim."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 600, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def sign(
        self, claims: dict[str, Any], by: str, key: PrivateKey | None = None, **headers: Any
    ) -> str:  # Any: of JSON
        """Sign a JWT with the key of that id, or with another key under that id; None removes a header."""
        algorithm, own = self.keys[by]
        header = {"kid": by, **headers}
        return jwt.encode(claims, key or own, algorithm, {name: v for name, v in header.items() if v is not None})


@contextmanager
def run_issuer() -> Iterator[LocalIssuer]:

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = LocalIssuer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="issuer")
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
