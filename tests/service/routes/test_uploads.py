"""Uploads over HTTP: streamed, within their limits, all or nothing."""

import io
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest

from service.middleware import body_limit
from tests.servers.processes import until
from tests.service.conftest import MakeDeployment
from tests.service.deployment import TASK, Deployment, archive, picture

ZIP = {"Content-Type": "application/zip"}
MIB = 2**20


def upload(deployment: Deployment, content: Any, who: str = "owner", **said: Any) -> httpx.Response:
    return deployment.request(who, "POST", "/sources", params={"task": TASK, **said}, content=content, headers=ZIP)


def refused(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def rooms(deployment: Deployment) -> list[Path]:
    """Whatever lies in the scratch folder."""
    return [path for path in deployment.registry.scratch.folder.glob("*") if path.name != "scratch-id"]


def test_an_archive_becomes_a_source_that_waits_for_training(deployment: Deployment) -> None:
    name = deployment.new_name("source")

    answer = upload(deployment, archive(), name=name, shards=2)

    assert answer.status_code == 202
    told = answer.json()
    assert (told["samples"], told["skipped_files"]) == (6, [])
    shown = deployment.request("owner", "GET", answer.headers["location"]).json()
    assert (shown["name"], shown["samples"], shown["labels"]) == (name, 6, ["cat", "dog", "owl"])
    assert [shard["id"] for shard in shown["shards"]] == told["shards"]
    assert {shard["state"] for shard in shown["shards"]} == {"waiting"}
    assert rooms(deployment) == []


def test_a_form_with_the_archive_last_does_the_same(deployment: Deployment) -> None:
    fields = {"task": TASK, "name": deployment.new_name("source"), "unreadable": "skip"}
    pictures = archive({"cat/1.png": picture(1), "cat/2.png": b"no picture", "dog/1.png": picture(2)})

    answer = deployment.request("owner", "POST", "/sources", data=fields, files={"archive": ("a.zip", pictures)})

    assert answer.status_code == 202, answer.text
    told = answer.json()
    assert (told["samples"], told["skipped"]) == (2, 1)
    assert told["skipped_files"][0]["name"] == "cat/2.png"


def test_a_compressed_tar_is_read_too(deployment: Deployment) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for number, label in enumerate(("cat", "dog")):
            info = tarfile.TarInfo(f"{label}/1.png")
            info.size = len(picture(number))
            packed.addfile(info, io.BytesIO(picture(number)))

    answer = upload(deployment, file.getvalue(), name=deployment.new_name("source"))

    assert answer.json()["samples"] == 2


def test_json_makes_a_source_without_pictures(deployment: Deployment) -> None:
    asked = {"task": TASK, "name": deployment.new_name("source")}

    answer = deployment.request("owner", "POST", "/sources", json=asked)

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
    seen: list[str] = []
    after: str | None = None
    while True:
        query = {"limit": "4", **({} if after is None else {"after": after})}
        page = deployment.request("owner", "GET", f"/sources/{source}/samples", params=query).json()
        seen += [sample["digest"] for sample in page["items"]]
        after = page["next"]
        if after is None:
            break

    assert len(seen) == 6
    assert seen == sorted(set(seen))


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"no archive", 422), (archive()[:-40], 422), (archive({"cat/1.png": b"x"}), 422), (b"", 422)],
    ids=["text", "cut", "no picture", "empty"],
)
def test_what_cannot_be_read_leaves_nothing(content: bytes, status: int, deployment: Deployment) -> None:
    before = deployment.request("admin", "GET", "/sources").json()

    refused(upload(deployment, content, name=deployment.new_name("source")), status)

    assert deployment.request("admin", "GET", "/sources").json() == before
    assert rooms(deployment) == []


def test_a_name_that_is_taken_is_refused_before_the_archive_is_read(deployment: Deployment) -> None:
    name = deployment.new_name("source")
    assert upload(deployment, archive(), name=name).status_code == 202

    refused(upload(deployment, b"not even an archive", name=name), 409)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"task": "nope", "name": "a"}, 404),
        ({"task": TASK}, 422),
        ({"task": TASK, "name": "\0"}, 422),
        ({"task": TASK, "name": "a", "shards": "0"}, 422),
    ],
)
def test_what_is_said_of_an_upload_is_checked(said: dict[str, str], status: int, deployment: Deployment) -> None:
    refused(deployment.request("owner", "POST", "/sources", params=said, content=archive(), headers=ZIP), status)


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
def test_what_is_said_twice_or_wrongly_is_told_where_it_was_said(
    query: list[tuple[str, str]], fields: list[tuple[str, bytes]] | None, loc: list[str], deployment: Deployment
) -> None:
    raw = {"content": archive(), "headers": ZIP}
    body = raw if fields is None else form(*fields, ("archive", archive()))

    answer = deployment.request("owner", "POST", "/sources", params=[("task", TASK), *query], **body)

    assert refused(answer, 422)["errors"][0]["loc"] == loc


def test_a_misspelt_setting_is_refused(deployment: Deployment) -> None:
    refused(upload(deployment, archive(), name=deployment.new_name("source"), shard="2"), 422)


@pytest.mark.parametrize("kind", ["text/plain", "image/png", ""])
def test_other_content_types_are_refused(kind: str, deployment: Deployment) -> None:
    said = {"task": TASK, "name": deployment.new_name("source")}

    refused(
        deployment.request("owner", "POST", "/sources", params=said, content=b"x", headers={"Content-Type": kind}), 415
    )


def form(*parts: tuple[str, bytes]) -> dict[str, Any]:
    lines = [b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (n.encode(), v) for n, v in parts]
    return {"content": b"".join(lines) + b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}


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
def test_a_form_that_is_not_in_order_is_refused(request_: dict[str, Any], status: int, deployment: Deployment) -> None:
    refused(deployment.request("owner", "POST", "/sources", **request_), status)

    assert rooms(deployment) == []


class Faucet:
    """A body without an end, that counts what was taken of it."""

    def __init__(self) -> None:
        self.taken_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while self.taken_bytes < 500 * MIB:
            self.taken_bytes += 64 * 1024
            yield bytes(64 * 1024)


@pytest.fixture(scope="module")
def small(make_deployment: MakeDeployment) -> Deployment:
    """A service with narrow limits."""
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
def test_a_body_without_an_end_is_cut_off(method: str, path: str, headers: dict[str, str], small: Deployment) -> None:
    faucet = Faucet()

    answer = small.request("owner", method, path.format(source=small.source), content=faucet, headers=headers)

    assert answer.status_code in (400, 413)  # a form of zeros is no form, which is seen even earlier
    assert faucet.taken_bytes < 100 * MIB
    assert rooms(small) == []


def test_a_body_that_says_it_is_too_large_is_not_read(small: Deployment) -> None:
    with connection(small) as wire:
        wire.sendall(head(small, "POST", "/predict", "Content-Type: application/json", f"Content-Length: {10 * MIB}"))

        assert b" 413 " in wire.recv(4096)


def test_an_upload_of_nobody_is_not_read(small: Deployment) -> None:
    with connection(small) as wire:
        wire.sendall(f"POST /sources HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n".encode())

        assert b" 401 " in wire.recv(4096)


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
def test_a_client_that_falls_silent_is_let_go(path: str, kind: str, small: Deployment) -> None:
    with connection(small) as wire:
        wire.sendall(head(small, "POST", path, f"Content-Type: {kind}", "Content-Length: 100") + b"--b")
        answer = wire.recv(4096)

    assert b" 408 " in answer
    assert rooms(small) == []


def test_more_uploads_than_there_is_room_for_are_asked_to_come_again(small: Deployment) -> None:
    with connection(small) as wire:
        path = "/sources?task=animals&name=claim"
        wire.sendall(head(small, "POST", path, "Content-Type: application/zip", "Content-Length: 100") + b"PK")
        until(lambda: rooms(small) != [])

        answer = upload(small, archive(), name=small.new_name("source"))

    refused(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1


def test_one_user_has_at_most_half_of_the_places(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment(max_uploads=2)
    with connection(deployment) as wire:
        path = "/sources?task=animals&name=claim"
        wire.sendall(head(deployment, "POST", path, "Content-Type: application/zip", "Content-Length: 100") + b"PK")
        until(lambda: rooms(deployment) != [])

        refused(upload(deployment, archive(), name=deployment.new_name("source")), 503)
        assert upload(deployment, archive(), who="admin", name=deployment.new_name("source")).status_code == 202


def test_an_upload_that_trickles_is_let_go(make_deployment: MakeDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "GRACE_SECONDS", 0.5)
    deployment = make_deployment()
    with connection(deployment) as wire:
        path = "/sources?task=animals&name=trickle"
        wire.sendall(head(deployment, "POST", path, "Content-Type: application/zip", f"Content-Length: {MIB}") + b"PK")
        sent = 2
        while not select([wire], [], [], 0.05)[0]:
            assert sent < MIB // 2  # long after a patient service would have let it go
            wire.sendall(b"x")
            sent += 1
        answer = wire.recv(4096)

    assert b" 408 " in answer
    until(lambda: rooms(deployment) == [])


def test_a_client_that_leaves_in_the_middle_leaves_nothing(small: Deployment) -> None:
    with connection(small) as wire:
        path = "/sources?task=animals&name=leaving"
        wire.sendall(head(small, "POST", path, "Content-Type: application/zip", "Content-Length: 100") + b"PK")
        until(lambda: rooms(small) != [])

    until(lambda: rooms(small) == [])


def connection(deployment: Deployment) -> socket.socket:
    place = urlsplit(deployment.url)
    assert place.hostname is not None
    return socket.create_connection((place.hostname, place.port or 80), timeout=30)


def head(deployment: Deployment, method: str, path: str, *lines: str) -> bytes:
    token = f"Authorization: Bearer {deployment.tokens['owner']}"
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", token, *lines, "", ""]).encode()


def test_a_prompt_is_no_upload_of_pictures(deployment: Deployment) -> None:
    answer = deployment.request("owner", "PUT", f"/sources/{deployment.source}/prompt", content=archive(), headers=ZIP)

    refused(answer, 415)
    assert UUID(deployment.request("owner", "GET", f"/sources/{deployment.source}").json()["id"]) == deployment.source
