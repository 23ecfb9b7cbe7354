"""A store behaves like a dictionary that never overwrites, after any sequence of operations."""

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.storage.folder import FolderStore
from registry.storage.keys import is_under_prefix
from registry.storage.s3 import S3Store
from registry.storage.store import ObjectExists, ObjectStore, RemovedCount, StoredItem
from tests.registry.storage.store_fixtures import digest
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

# Names of which one begins another, and which sort before and behind the slash.
NAMES = st.sampled_from(["a", "ab", "a-b", "a.b", "A", "0"])
# All keys are equally deep, so that none is the folder of another.
KEYS = st.tuples(NAMES, NAMES, NAMES).map("/".join)
BODIES = st.sampled_from([b"", b"x", b"yy"])
PREFIXES = st.one_of(
    st.just(""), NAMES.map("{}/".format), st.tuples(NAMES, NAMES).map(lambda two: f"{two[0]}/{two[1]}/"), KEYS
)
STEPS = st.lists(
    st.one_of(st.tuples(st.just("put"), KEYS, BODIES), st.tuples(st.just("remove"), PREFIXES, st.just(b""))),
    max_size=20,
)
# A bucket's service may have an order of its own for names of which one begins another.
EVEN_NAMES = st.sampled_from(["a", "b", "c"])
EVEN_KEYS = st.tuples(EVEN_NAMES, EVEN_NAMES).map("/".join)
EVEN_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), EVEN_KEYS, BODIES),
        st.tuples(st.just("remove"), st.one_of(EVEN_NAMES.map("{}/".format), EVEN_KEYS), st.just(b"")),
    ),
    max_size=8,
)

Steps = list[tuple[str, str, bytes]]


def check_against_a_dictionary(store: ObjectStore, steps: Steps, prefixes: list[str]) -> None:
    model: dict[str, bytes] = {}
    for verb, key, body in steps:
        if verb == "put":
            try:
                store.put(key, body)
                was_put = True
            except ObjectExists:
                was_put = False
            assert was_put == (model.get(key, body) == body)
            model.setdefault(key, body)
        else:
            gone = {one: model.pop(one) for one in list(model) if is_under_prefix(one, key)}
            assert store.remove(key) == RemovedCount(len(gone), sum(map(len, gone.values())))
    for prefix in ["", *prefixes]:
        expected = [StoredItem(key, len(model[key]), "object") for key in sorted(model) if is_under_prefix(key, prefix)]
        assert list(store.list_objects(prefix)) == expected
        assert list(store.list_all(prefix)) == expected
    for key, body in model.items():
        assert store.read(key, digest(body)) == body


@settings(max_examples=40)
@given(STEPS, st.lists(PREFIXES, max_size=3))
def test_a_folder_is_a_dictionary(steps: Steps, prefixes: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore(Path(folder) / "objects")
        store.prepare()
        check_against_a_dictionary(store, steps, prefixes)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(EVEN_STEPS)
def test_a_bucket_is_a_dictionary(s3_server: S3Server, s3_client: "S3Client", s3_bucket: str, steps: Steps) -> None:
    store = S3Store(s3_server.settings(s3_bucket, f"model/{uuid.uuid4()}"), s3_client)
    check_against_a_dictionary(store, steps, ["a/", "a/b"])
