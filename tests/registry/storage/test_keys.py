"""Keys can be parsed again, and a key that could lead outside of the store is refused."""

import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.storage.keys import (
    InvalidKey,
    PromptKey,
    SampleKey,
    is_under_prefix,
    parse_key,
    probe_key,
    probe_timestamp,
    prompt_key,
    prompts_prefix,
    sample_key,
    shard_prefix,
    source_prefix,
    validate_key,
    validate_prefix,
)

DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(st.uuids(), st.uuids(), DIGESTS)
def test_a_sample_key_is_parsed_into_its_parts(source: uuid.UUID, shard: uuid.UUID, digest: str) -> None:
    key = validate_key(sample_key(source, shard, digest))
    assert parse_key(key) == SampleKey(source, shard, digest)
    assert is_under_prefix(key, source_prefix(source))
    assert is_under_prefix(key, validate_prefix(shard_prefix(source, shard)))


@given(st.uuids(), st.uuids(), st.integers(0, 2**40), st.uuids())
def test_a_prompt_key_is_parsed_into_its_parts(
    source: uuid.UUID, shard: uuid.UUID, generation: int, claim: uuid.UUID
) -> None:
    key = validate_key(prompt_key(source, shard, generation, claim))
    assert parse_key(key) == PromptKey(source, shard, generation, claim)
    assert is_under_prefix(key, shard_prefix(source, shard))
    assert is_under_prefix(key, validate_prefix(prompts_prefix(source, shard, generation)))


def test_a_generation_is_not_below_one_whose_number_is_a_prefix() -> None:
    source, shard, claim = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    assert not is_under_prefix(prompt_key(source, shard, 12, claim), prompts_prefix(source, shard, 1))


@pytest.mark.parametrize(
    "key", ["", "sources", "sources/x/shards/y/samples/z", "check-1", f"sources/{uuid.UUID(int=7)}/"]
)
def test_an_unknown_key_has_no_parts(key: str) -> None:
    assert parse_key(key) is None


def test_a_probe_key_has_its_time_and_no_parts() -> None:
    before = time.time()
    key = validate_key(probe_key())
    since = probe_timestamp(key)

    assert since is not None
    assert before - 0.001 <= since <= time.time() + 0.001
    assert parse_key(key) is None
    assert [probe_timestamp(other) for other in (f"check-{uuid.uuid4()}", f"{key}\n", f"a/{key}", "check-1")] == [
        None
    ] * 4


def test_a_key_with_a_line_break_has_no_parts() -> None:
    assert parse_key(sample_key(uuid.uuid4(), uuid.uuid4(), "0" * 64) + "\n") is None


@pytest.mark.parametrize(
    "key",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.b", "a b", "a\n", "a/b\0", "ä", "a\\b", "a:b", "a%2e", "~"],
)
def test_a_key_that_could_lead_elsewhere_is_refused(key: str) -> None:
    with pytest.raises(InvalidKey):
        validate_key(key)


@pytest.mark.parametrize("key", ["a" * 201, "a/" * 256 + "a"])
def test_a_key_that_is_too_long_is_refused(key: str) -> None:
    with pytest.raises(InvalidKey, match="at most"):
        validate_key(key)


@pytest.mark.parametrize("prefix", ["/", "a//", "../", "a/.b/", ".a"])
def test_a_prefix_that_could_lead_elsewhere_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidKey):
        validate_prefix(prefix)


@pytest.mark.parametrize("key", ["a", "a.b", "-", "_", "A0/b-c/d_e.f", "a" * 200, "/".join(["a" * 101] * 5)])
def test_a_plain_key_passes(key: str) -> None:
    assert validate_key(key) == key
    assert validate_prefix(f"{key}/" if len(key) < 500 else key)


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "A" * 64, "0" * 63 + "/", "0" * 64 + "\n"])
def test_a_sample_key_of_no_digest_is_refused(digest: str) -> None:
    with pytest.raises(InvalidKey):
        sample_key(uuid.uuid4(), uuid.uuid4(), digest)


def test_a_generation_below_zero_is_refused() -> None:
    with pytest.raises(InvalidKey):
        prompts_prefix(uuid.uuid4(), uuid.uuid4(), -1)


def test_a_whole_key_means_itself_alone() -> None:
    assert [key for key in ("a/b", "a/bc", "a/b/c", "a") if is_under_prefix(key, "a/b")] == ["a/b"]
    assert [key for key in ("a/b", "a/bc", "a/b/c", "a", "ab") if is_under_prefix(key, "a/")] == [
        "a/b",
        "a/bc",
        "a/b/c",
    ]
    assert is_under_prefix("a/b", "")
