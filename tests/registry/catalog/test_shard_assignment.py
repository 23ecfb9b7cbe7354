"""The shard of a sample depends on its bytes and the key only."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.catalog.shard_assignment import assign_shard, split_into_shards
from registry.datasets.dataset import LabelledPicture

KEY = b"a key of a source"

digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
keys = st.binary(min_size=1, max_size=64)
counts = st.integers(min_value=1, max_value=64)


def sample(digest: str) -> LabelledPicture:
    return LabelledPicture(label="a", name=digest[:8], digest=digest, path=Path(digest))


@given(digests, keys, counts)
def test_a_shard_is_one_of_the_shards_and_always_the_same(digest: str, key: bytes, shards: int) -> None:
    shard = assign_shard(digest, key, shards)

    assert 0 <= shard < shards
    assert shard == assign_shard(digest, key, shards)
    assert shard == assign_shard(digest.upper(), key, shards)


@given(st.sets(digests, min_size=1, max_size=30), st.data(), keys, counts)
def test_removing_samples_moves_no_other(names: set[str], data: st.DataObject, key: bytes, shards: int) -> None:
    gone = data.draw(st.sets(st.sampled_from(sorted(names))))
    before = split_into_shards([sample(name) for name in names], key, shards)

    after = split_into_shards([sample(name) for name in names - gone], key, shards)

    assert after == tuple(tuple(s for s in part if s.digest not in gone) for part in before)


@given(st.data(), st.lists(digests, unique=True, max_size=30), counts)
def test_the_order_of_the_samples_does_not_matter(data: st.DataObject, names: list[str], shards: int) -> None:
    shuffled = data.draw(st.permutations(names))

    assert split_into_shards(map(sample, names), KEY, shards) == split_into_shards(map(sample, shuffled), KEY, shards)


@given(st.sets(digests, max_size=30), counts)
def test_a_split_keeps_every_sample_once(names: set[str], shards: int) -> None:
    parts = split_into_shards(map(sample, names), KEY, shards)

    assert len(parts) == shards
    assert sorted(s.digest for part in parts for s in part) == sorted(names)


def test_shards_are_about_equal_and_another_key_assigns_differently() -> None:
    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(5000)]

    sizes = [len(part) for part in split_into_shards(map(sample, names), KEY, 5)]
    stayed = sum(assign_shard(name, KEY, 5) == assign_shard(name, b"another", 5) for name in names)

    assert all(abs(size - 1000) < 150 for size in sizes)  # 5 standard deviations
    assert abs(stayed - 1000) < 150


@pytest.mark.parametrize(("digest", "key", "shards"), [("00" * 32, KEY, 0), ("00" * 32, b"", 2), ("no digest", KEY, 2)])
def test_invalid_arguments_are_refused(digest: str, key: bytes, shards: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        assign_shard(digest, key, shards)
