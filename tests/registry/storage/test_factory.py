"""A location opens one store, or is refused in one line."""

from pathlib import Path

import pytest

from registry.errors import DomainError
from registry.storage.factory import open_store
from registry.storage.s3_client import S3Settings
from tests.registry.storage.store_fixtures import digest


@pytest.mark.parametrize("scheme", ["", "file://", "file://localhost"])
def test_a_path_names_a_folder(tmp_path: Path, scheme: str) -> None:
    store = open_store(f"{scheme}{tmp_path}/objects")
    store.prepare()
    store.put("a/b", b"1")
    assert store.name == "folder objects"
    assert (tmp_path / "objects/a/b").read_bytes() == b"1"


def test_a_relative_path_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("objects")
    monkeypatch.chdir("/")
    store.prepare()
    store.put("a/b", b"1")
    assert (tmp_path / "objects/a/b").read_bytes() == b"1"


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_bucket_and_a_prefix_name_an_s3_store(s3_settings: S3Settings, ending: str) -> None:
    store = open_store(
        f"s3://{s3_settings.bucket}/{s3_settings.prefix}{ending}",
        endpoint=s3_settings.endpoint,
        region=s3_settings.region,
        access_key=s3_settings.access_key,
        secret_key=s3_settings.secret_key,
    )
    store.put("a/b", b"1")
    assert store.read("a/b", digest(b"1")) == b"1"
    assert store.name == f"s3://{s3_settings.bucket}/{s3_settings.prefix}"


def test_a_bucket_alone_names_an_s3_store() -> None:
    assert open_store("s3://bucket", region="us-east-1", access_key="a", secret_key="b").name == "s3://bucket"


@pytest.mark.parametrize(
    "location",
    ["", " ", "gs://bucket", "http://host/x", "s3://", "s3:///x", "file://", "file:///", "file://host/x", "s3://b/a b"],
)
def test_another_location_is_refused_in_one_line(location: str) -> None:
    with pytest.raises(DomainError, match=r"set ALACARTE_OBJECTS to a folder, or to s3://bucket/prefix$") as caught:
        open_store(location)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["s3://key:hunter2@bucket/x", "s3://bucket/x?secret=hunter2", "s3://bucket/#hunter2"]
)
def test_credentials_in_a_location_are_refused_and_not_shown(location: str) -> None:
    with pytest.raises(DomainError, match="must not have credentials") as caught:
        open_store(location)
    assert "hunter2" not in str(caught.value)
