"""Datasets with train and test parts, which are recognised by their folder names."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from registry.datasets.domains import Domain, open_domains
from registry.errors import DatasetRejected

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


def split_files(
    builder: DatasetBuilder, prefix: str = "", first: int = 0, train: str = "train", test: str = "test"
) -> dict[str, bytes]:
    """Return two pictures of each of two labels in each part; the numbers of the pictures begin with the first."""
    names = enumerate(product((train, test), ("cat", "dog"), range(2)), first)
    return {f"{prefix}{part}/{label}/{n}.png": builder.picture(number) for number, (part, label, n) in names}


def count_samples(domain: Domain) -> tuple[int, int]:
    assert domain.test is not None
    assert domain.train.labels == domain.test.labels == ("cat", "dog")
    return len(domain.train.samples), len(domain.test.samples)


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Training", "val")])
def test_train_and_test_folders_are_recognised_by_their_names(builder: DatasetBuilder, train: str, test: str) -> None:
    with open_domains(builder.tree(split_files(builder, train=train, test=test))) as domains:
        assert [domain.name for domain in domains] == [""]
        assert count_samples(domains[0]) == (4, 4)


@pytest.mark.parametrize("pack", ["folder", "gz"])
def test_every_domain_has_its_own_train_and_test_part(builder: DatasetBuilder, pack: str) -> None:
    files = split_files(builder, "set/photo/") | split_files(builder, "set/sketch/", first=100)

    with open_domains(builder.pack(pack, files | {"set/README.md": b"Notes."}), scratch=builder.scratch) as domains:
        assert [domain.name for domain in domains] == ["photo", "sketch"]
        assert [count_samples(domain) for domain in domains] == [(4, 4), (4, 4)]
        assert all(sample.path.exists() for domain in domains for sample in domain.train.samples)

    assert list(builder.scratch.iterdir()) == []


@pytest.mark.parametrize("layout", ["class folders", "csv"])
def test_without_split_folders_there_is_no_test_part(builder: DatasetBuilder, layout: str) -> None:
    root = builder.tree({"cat/1.png": builder.picture(1), "dog/2.png": builder.picture(2)})
    if layout == "csv":
        root /= "all.csv"
        root.write_text("file,label\ncat/1.png,cat\ndog/2.png,dog\n")

    with open_domains(root) as domains:
        assert [domain.test for domain in domains] == [None]
        assert domains[0].train.labels == ("cat", "dog")


def test_a_picture_in_both_parts_is_refused_or_left_out_of_the_test_part(builder: DatasetBuilder) -> None:
    root = builder.tree(split_files(builder) | {"test/cat/again.png": builder.picture(0)})

    with pytest.raises(DatasetRejected, match="among the training pictures"), open_domains(root):
        pass
    with open_domains(root, unreadable="skip") as domains:
        assert count_samples(domains[0]) == (4, 4)
        assert domains[0].test is not None
        assert [refusal.name for refusal in domains[0].test.skipped] == ["test/cat/again.png"]
