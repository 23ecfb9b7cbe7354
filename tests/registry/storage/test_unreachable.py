"""A store that cannot be reached is reported soon, in one line without secrets."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.storage import s3
from registry.storage.s3 import S3Store
from registry.storage.s3_client import S3Settings, make_client
from registry.storage.store import ObjectStore, StoreUnreachable
from tests.registry.storage.store_fixtures import S3Fixture, StoreFixture, sorted_items

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


def refusals(store: ObjectStore, folder: Path) -> list[str]:
    """What each way of asking says."""
    messages = []
    for ask in (
        lambda: store.put("a/b", b"1"),
        lambda: store.put("a/b", b"1" * (s3.PART_BYTES + 1)),
        lambda: store.read("a/b", ""),
        lambda: store.download("a/b", "", folder / "fetched"),
        lambda: list(store.list_objects("a/")),
        lambda: list(store.list_all("a/")),
        lambda: store.remove("a/"),
        store.check,
    ):
        with pytest.raises(StoreUnreachable) as caught:
            ask()
        messages.append(str(caught.value))
    assert list(folder.iterdir()) == []
    assert all("\n" not in line for line in messages)
    return messages


def test_a_check_of_a_working_store_leaves_nothing_behind(store_fixture: StoreFixture) -> None:
    before = sorted_items(store_fixture.store.list_all(""))
    store_fixture.store.prepare()
    store_fixture.store.check()
    assert sorted_items(store_fixture.store.list_all("")) == before


def test_a_wrong_secret_is_reported_without_it(s3_settings: S3Settings, tmp_path: Path) -> None:
    settings = replace(s3_settings, secret_key="hunter2hunter2")
    store = S3Store(settings, make_client(settings, attempts=1))
    for line in refusals(store, tmp_path):
        assert "refuses these credentials" in line
        assert "hunter2" not in line
    assert "hunter2" not in repr(settings)


def test_a_server_that_is_down_is_reported(s3_settings: S3Settings, tmp_path: Path) -> None:
    with socket.socket() as taken:
        # Bound and not listening: nobody else can have the port, and nobody answers.
        taken.bind(("127.0.0.1", 0))
        settings = replace(s3_settings, endpoint=f"http://127.0.0.1:{taken.getsockname()[1]}")
        store = S3Store(settings, make_client(settings, attempts=1))
        for line in refusals(store, tmp_path):
            assert line == f"{store.name} does not answer: check that it runs, and ALACARTE_S3_ENDPOINT"


def test_a_missing_bucket_is_reported_and_not_created(
    s3_settings: S3Settings, s3_client: "S3Client", tmp_path: Path
) -> None:
    store = S3Store(replace(s3_settings, bucket="test-nobodys-bucket"), s3_client)
    for line in refusals(store, tmp_path):
        assert "does not exist: check the name of the bucket" in line


def test_prepare_creates_a_missing_bucket(s3_settings: S3Settings, s3_client: "S3Client") -> None:
    settings = replace(s3_settings, bucket=f"test-{s3_settings.prefix[-12:]}")
    store = S3Store(settings, s3_client)
    store.prepare()
    store.prepare()
    store.check()


def test_a_service_that_overwrites_is_reported(s3_fixture: S3Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    client = s3_fixture.store._single_attempt_client
    real = client.put_object

    def put_anyway(**request: Any) -> Any:
        return real(**request | {"IfNoneMatch": ""})

    monkeypatch.setattr(client, "put_object", put_anyway)
    with pytest.raises(StoreUnreachable, match="overwrites objects despite If-None-Match"):
        s3_fixture.store.check()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"endpoint": "not a url"}, "check the endpoint"), ({"secret_key": None}, "the keys in the settings")],
    ids=["an invalid endpoint", "one key without the other"],
)
def test_invalid_settings_are_reported(s3_settings: S3Settings, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(StoreUnreachable, match=message):
        S3Store(replace(s3_settings, **wrong)).check()


def test_missing_credentials_are_reported(
    s3_settings: S3Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    settings = replace(s3_settings, access_key=None, secret_key=None)
    with pytest.raises(StoreUnreachable, match="set ALACARTE_S3_ACCESS_KEY"):
        S3Store(settings, make_client(settings, attempts=1)).check()


def test_without_boto3_a_folder_opens_and_a_bucket_says_what_to_install(tmp_path: Path) -> None:
    script = """
import sys
sys.modules["boto3"] = sys.modules["botocore"] = None
from registry.storage.factory import open_store
store = open_store(sys.argv[1])
store.prepare()
store.put("a/b", b"1")
try:
    open_store("s3://bucket/prefix")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "objects")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "DomainError objects in S3 need boto3: pip install 'alacarte[s3]'\n"
