"""Damaged requests to every call that takes a body, and damaged bytes on a connection."""

import json
import struct
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.service.deployment import LABELS, TASK
from tests.stress.limits.damage import damaged, damaged_members, damaged_prompts
from tests.stress.limits.samples import archives, pictures, prompts

BOUNDARY = "limit"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
JSON = "application/json"
BYTES = "application/octet-stream"


@dataclass(frozen=True)
class DamagedRequest:
    """One request; its path may have placeholders for a source id and an unused name."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]


Requests = SearchStrategy[DamagedRequest]


def multipart_request(picture: bytes) -> bytes:
    """Return a predict request with one picture as multipart."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="task"\r\n\r\n{TASK}\r\n'.encode(),
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'.encode(),
        picture,
        f"\r\n--{BOUNDARY}--\r\n".encode(),
    ]
    return b"".join(parts)


def json_request(picture: bytes) -> bytes:
    """Return the same request in JSON."""
    return json.dumps({"images": [b64encode(picture).decode()], "task": TASK, "top_k": 2}).encode()


def oip_request(picture: bytes) -> tuple[bytes, int]:
    """Return the same request in the Open Inference Protocol, and the length of its header."""
    payload = struct.pack("<I", len(picture)) + picture
    parameters = {"binary_data_size": len(payload)}
    inputs = [{"name": "image", "shape": [1], "datatype": "BYTES", "parameters": parameters}]
    header = json.dumps({"inputs": inputs}).encode()
    return header + payload, len(header)


def _to(path: str, kind: str, bodies: SearchStrategy[bytes], method: str = "POST", **headers: str) -> Requests:
    return st.builds(DamagedRequest, st.just(method), st.just(path), bodies, st.just({"Content-Type": kind, **headers}))


def damaged_requests() -> Requests:
    """Requests with damage to their content or to its encoding."""
    sound = pictures()[1]
    binary, length = oip_request(sound)
    harmed = damaged(pictures())
    upload = f"/sources?task={TASK}&name={{name}}"
    packed = st.one_of(damaged(archives()), damaged_members())
    task = json.dumps({"name": "x", "backbone": "vit", "labels": LABELS, "recipe": {"epochs": 1}}).encode()
    return st.one_of(
        _to("/predict", MULTIPART, harmed.map(multipart_request)),
        _to("/predict", MULTIPART, damaged((multipart_request(sound),))),
        _to("/predict", JSON, harmed.map(json_request)),
        _to("/predict", JSON, damaged((json_request(sound),))),
        _to(f"/v2/models/{TASK}/infer", BYTES, damaged((binary,)), **{"Inference-Header-Content-Length": str(length)}),
        _to(upload, "application/zip", packed),
        _to(f"{upload}&unreadable=skip", "application/x-tar", packed),
        _to("/sources/{source}/samples", BYTES, packed),
        _to("/sources/{source}/prompt", BYTES, damaged_prompts(prompts()), "PUT"),
        _to("/tasks", JSON, damaged((task,))),
    )


def damaged_connections() -> SearchStrategy[bytes]:
    """Bytes on a connection: requests with damage to their heads, lengths and chunks."""
    body = json_request(pictures()[1])
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nContent-Type: {JSON}\r\n"
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return damaged(
        (
            b"GET /tasks?a=b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n",
            b"GET /openapi.json HTTP/1.0\r\nAuthorization: Bearer TOKEN\r\nConnection: keep-alive\r\n\r\n" * 2,
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body,
            f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked,
            f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body,
            f"{head}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body,
        )
    )
