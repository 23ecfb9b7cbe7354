"""Uploads over HTTP: streamed, limited, all or nothing."""

import io
import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest

from service.middleware import body_limit
from tests.servers.processes import wait_until
from tests.service.conftest import MakeDeployment
from tests.service.deployment import TASK, Deployment, archive, picture

ZIP = {"Content-Type": "application/zip"}
MIB = 2**20


def upload(deployment: Deployment, content: Any, who: str = "owner", **fields: Any) -> httpx.Response:
    return deployment.request(who, "POST", "/sources", params={"task": TASK, **fields}, content=content, headers=ZIP)


def problem(answer: httpx.Response, status: int) -> Any:
    """Check that the answer is a problem document with this status, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def scratch_files(deployment: Deployment) -> list[Path]:
    return [path for path in deployment.registry.scratch.folder.glob("*") if path.name != "scratch-id"]


def form(*parts: tuple[str, bytes]) -> dict[str, Any]:
    lines = [b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (n.encode(), v) for n, v in parts]
    return {"content": b"".join(lines) + b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}


def connection(deployment: Deployment) -> socket.socket:
    address = urlsplit(deployment.url)
    assert address.hostname is not None
    return socket.create_connection((address.hostname, address.port or 80), timeout=30)


def head(deployment: Deployment, method: str, path: str, *lines: str) -> bytes:
    token = f"Authorization: Bearer {deployment.tokens['owner']}"
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", token, *lines, "", ""]).encode()


@contextmanager
def partial_upload(deployment: Deployment, size_bytes: int = 100) -> Iterator[socket.socket]:
    """Send the head and the first two bytes of an upload, wait until they are received, and yield the connection."""
    path = f"/sources?task={TASK}&name=partial"
    with connection(deployment) as wire:
        wire.sendall(head(deployment, "POST", path, "Content-Type: application/zip", f"Content-Length: {size_bytes}"))
        wire.sendall(b"PK")
        wait_until(lambda: scratch_files(deployment) != [])
        yield wire


def test_an_uploaded_archive_becomes_an_untrained_source(deployment: Deployment) -> None:
    name = deployment.new_name("source")

    answer = upload(deployment, archive(), name=name, shards=2)

    assert answer.status_code == 202
    added = answer.json()
    assert (added["samples"], added["skipped_files"]) == (6, [])
    shown = deployment.request("owner", "GET", answer.headers["location"]).json()
    assert (shown["name"], shown["samples"], shown["labels"]) == (name, 6, ["cat", "dog", "owl"])
    assert [shard["id"] for shard in shown["shards"]] == added["shards"]
    assert {shard["state"] for shard in shown["shards"]} == {"waiting"}
    assert scratch_files(deployment) == []


def test_a_form_with_the_archive_last_is_accepted(deployment: Deployment) -> None:
    fields = {"task": TASK, "name": deployment.new_name("source"), "unreadable": "skip"}
    pictures = archive({"cat/1.png": picture(1), "cat/2.png": b"no picture", "dog/1.png": picture(2)})

    answer = deployment.request("owner", "POST", "/sources", data=fields, files={"archive": ("a.zip", pictures)})

    assert answer.status_code == 202, answer.text
    added = answer.json()
    assert (added["samples"], added["skipped"]) == (2, 1)
    assert added["skipped_files"][0]["name"] == "cat/2.png"


def test_a_compressed_tar_is_accepted(deployment: Deployment) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for number, label in enumerate(("cat", "dog")):
            info = tarfile.TarInfo(f"{label}/1.png")
            info.size = len(picture(number))
            packed.addfile(info, io.BytesIO(picture(number)))

    answer = upload(deployment, file.getvalue(), name=deployment.new_name("source"))

    assert answer.json()["samples"] == 2


def test_json_creates_a_source_without_pictures(deployment: Deployment) -> None:
    body = {"task": TASK, "name": deployment.new_name("source")}

    answer = deployment.request("owner", "POST", "/sources", json=body)

    assert answer.status_code == 201
    assert deployment.request("owner", "GET", answer.headers["location"]).json()["shards"] == []


def test_pictures_are_added_as_new_shards(deployment: Deployment) -> None:
    source = upload(deployment, archive(), name=deployment.new_name("source")).json()["source_id"]
    more = archive({"cat/new.png": picture(200), "cat/old.png": picture(99 + 3)})  # the second is there already

    answer = deployment.request("manager", "POST", f"/sources/{source}/samples", content=more, headers=ZIP)
    assert answer.status_code == 404  # the manager has no grant to this one
    answer = deployment.request("owner", "POST", f"/sources/{source}/samples", content=more, headers=ZIP)

    assert answer.status_code == 202, answer.text
    assert (answer.json()["samples"], answer.json()["skipped"]) == (1, 1)
    assert len(deployment.request("owner", "GET", f"/sources/{source}").json()["shards"]) == 2


def test_samples_are_listed_page_by_page(deployment: Deployment) -> None:
    source = upload(deployment, archive(), name=deployment.new_name("source")).json()["source_id"]
    digests: list[str] = []
    query: dict[str, str] | None = {"limit": "4"}
    while query is not None:
        page = deployment.request("owner", "GET", f"/sources/{source}/samples", params=query).json()
        digests += [sample["digest"] for sample in page["items"]]
        query = {"limit": "4", "after": page["next"]} if page["next"] else None

    assert len(digests) == 6
    assert digests == sorted(set(digests))


@pytest.mark.parametrize(
    "content",
    [b"no archive", archive()[:-40], archive({"cat/1.png": b"x"}), b""],
    ids=["text", "cut", "no picture", "empty"],
)
def test_an_unreadable_archive_leaves_nothing(content: bytes, deployment: Deployment) -> None:
    before = deployment.request("admin", "GET", "/sources").json()

    problem(upload(deployment, content, name=deployment.new_name("source")), 422)

    assert deployment.request("admin", "GET", "/sources").json() == before
    assert scratch_files(deployment) == []


def test_a_taken_name_is_refused_before_the_archive_is_read(deployment: Deployment) -> None:
    name = deployment.new_name("source")
    assert upload(deployment, archive(), name=name).status_code == 202

    problem(upload(deployment, b"not even an archive", name=name), 409)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"task": "nope", "name": "a"}, 404),
        ({"task": TASK}, 422),
        ({"task": TASK, "name": "\0"}, 422),
        ({"task": TASK, "name": "a", "shards": "0"}, 422),
        ({"task": TASK, "name": "a", "shard": "2"}, 422),
    ],
)
def test_the_fields_of_an_upload_are_validated(query: dict[str, str], status: int, deployment: Deployment) -> None:
    problem(deployment.request("owner", "POST", "/sources", params=query, content=archive(), headers=ZIP), status)


@pytest.mark.parametrize(
    ("query", "fields", "loc"),
    [
        ([("name", "a"), ("name", "b")], None, ["query", "name"]),
        ([], [("name", b"a"), ("name", b"b")], ["body", "name"]),
        ([("name", "a")], [("name", b"b")], ["body", "name"]),
        ([], [("name", b"a"), ("shards", b"none")], ["body", "shards"]),
        ([("name", "a"), ("shards", "none")], None, ["query", "shards"]),
    ],
)
def test_a_repeated_or_invalid_field_is_reported_with_its_location(
    query: list[tuple[str, str]], fields: list[tuple[str, bytes]] | None, loc: list[str], deployment: Deployment
) -> None:
    raw = {"content": archive(), "headers": ZIP}
    body = raw if fields is None else form(*fields, ("archive", archive()))

    answer = deployment.request("owner", "POST", "/sources", params=[("task", TASK), *query], **body)

    assert problem(answer, 422)["errors"][0]["loc"] == loc


@pytest.mark.parametrize("kind", ["text/plain", "image/png", ""])
def test_other_content_types_are_refused(kind: str, deployment: Deployment) -> None:
    query, headers = {"task": TASK, "name": deployment.new_name("source")}, {"Content-Type": kind}

    problem(deployment.request("owner", "POST", "/sources", params=query, content=b"x", headers=headers), 415)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (form(("task", b"animals"), ("name", b"late"), ("archive", archive()), ("shards", b"2")), 422),
        (form(("task", b"animals"), ("name", b"none")), 422),
        (form(("task", b"animals"), ("name", b"x" * 100_000), ("archive", archive())), 422),
        ({**form(("archive", archive())), "headers": {"Content-Type": "multipart/form-data"}}, 400),
        ({**form(), "content": b"--b\r\nnonsense"}, 400),
    ],
    ids=["field after", "no archive", "long field", "no boundary", "damaged"],
)
def test_a_malformed_form_is_refused(request_: dict[str, Any], status: int, deployment: Deployment) -> None:
    problem(deployment.request("owner", "POST", "/sources", **request_), status)

    assert scratch_files(deployment) == []


class EndlessBody:
    """A body of (nearly) unlimited size that counts the bytes that were read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while self.read_bytes < 500 * MIB:
            self.read_bytes += 64 * 1024
            yield bytes(64 * 1024)


@pytest.fixture(scope="module")
def small(make_deployment: MakeDeployment) -> Deployment:
    return make_deployment(
        max_upload_bytes=MIB,
        max_body_bytes=MIB,
        max_prompt_bytes=MIB,
        max_uploads=1,
        read_timeout_s=0.5,
        keep_alive_s=1,
    )


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", f"/sources?task={TASK}&name=endless", ZIP),
        ("POST", "/sources/{source}/samples", ZIP),
        ("PUT", "/sources/{source}/prompt", {"Content-Type": "application/octet-stream"}),
        ("POST", "/predict", {"Content-Type": "application/json"}),
        ("POST", "/predict", {"Content-Type": "multipart/form-data; boundary=b"}),
        ("POST", "/tasks", {"Content-Type": "application/json"}),
        ("POST", f"/v2/models/{TASK}/infer", {"Content-Type": "application/json"}),
    ],
)
def test_reading_stops_at_the_body_limit(method: str, path: str, headers: dict[str, str], small: Deployment) -> None:
    body = EndlessBody()

    answer = small.request("owner", method, path.format(source=small.source), content=body, headers=headers)

    assert answer.status_code in (400, 413)  # zeros are not a form, which is noticed before the limit
    assert body.read_bytes < 100 * MIB
    assert scratch_files(small) == []


def test_a_body_that_is_too_large_or_without_a_token_is_not_read(small: Deployment) -> None:
    anonymous = f"POST /sources HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n".encode()
    large = head(small, "POST", "/predict", "Content-Type: application/json", f"Content-Length: {10 * MIB}")
    for request, status in ((large, b" 413 "), (anonymous, b" 401 ")):
        with connection(small) as wire:
            wire.sendall(request)

            assert status in wire.recv(4096)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/sources?task=animals&name=slow", "application/zip"),
        ("/sources", "multipart/form-data; boundary=b"),
        ("/predict", "multipart/form-data; boundary=b"),
        ("/predict", "application/json"),
        ("/tasks", "application/json"),
    ],
)
def test_a_silent_client_times_out(path: str, kind: str, small: Deployment) -> None:
    with connection(small) as wire:
        wire.sendall(head(small, "POST", path, f"Content-Type: {kind}", "Content-Length: 100") + b"--b")
        answer = wire.recv(4096)

    assert b" 408 " in answer
    assert scratch_files(small) == []


def test_uploads_above_the_limit_get_503_and_a_retry_time(small: Deployment) -> None:
    with partial_upload(small):
        answer = upload(small, archive(), name=small.new_name("source"))

    problem(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1


def test_one_user_may_use_half_of_the_concurrent_uploads(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment(max_uploads=2)
    with partial_upload(deployment):
        problem(upload(deployment, archive(), name=deployment.new_name("source")), 503)
        assert upload(deployment, archive(), who="admin", name=deployment.new_name("source")).status_code == 202


def test_a_very_slow_upload_times_out(make_deployment: MakeDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "GRACE_SECONDS", 0.5)
    deployment = make_deployment()
    with partial_upload(deployment, size_bytes=MIB) as wire:
        sent = 2
        while not select([wire], [], [], 0.05)[0]:
            assert sent < MIB // 2  # long after the service should have timed out
            wire.sendall(b"x")
            sent += 1
        answer = wire.recv(4096)

    assert b" 408 " in answer
    wait_until(lambda: scratch_files(deployment) == [])


def test_an_aborted_upload_leaves_nothing(small: Deployment) -> None:
    with partial_upload(small):
        pass

    wait_until(lambda: scratch_files(small) == [])


def test_an_archive_is_refused_as_a_prompt(deployment: Deployment) -> None:
    answer = deployment.request("owner", "PUT", f"/sources/{deployment.source}/prompt", content=archive(), headers=ZIP)

    problem(answer, 415)
    assert UUID(deployment.request("owner", "GET", f"/sources/{deployment.source}").json()["id"]) == deployment.source
