"""Datasets with train and test parts, which are recognised by their folder names."""

import tarfile
from pathlib import Path

import pytest
from PIL import Image

from registry.datasets.domains import Domain, open_domains
from registry.errors import DatasetRejected


def write_picture(folder: Path, shade: int, size: int = 8) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), (shade, shade, shade)).save(folder / f"{shade}.png")


def write_split(root: Path, first: int = 0, names: tuple[str, str] = ("train", "test")) -> Path:
    for index, part in enumerate(names):
        for label in ("cat", "dog"):
            for number in range(2):
                write_picture(root / part / label, first + 8 * index + (4 if label == "dog" else 0) + number)
    return root


def count_samples(domain: Domain) -> tuple[int, int]:
    assert domain.test is not None
    assert domain.train.labels == domain.test.labels == ("cat", "dog")
    return len(domain.train.samples), len(domain.test.samples)


@pytest.mark.parametrize("names", [("train", "test"), ("Training", "val")], ids=["usual", "other"])
def test_train_and_test_folders_are_recognised_by_their_names(tmp_path: Path, names: tuple[str, str]) -> None:
    write_split(tmp_path, names=names)

    with open_domains(tmp_path) as domains:
        assert [domain.name for domain in domains] == [""]
        assert count_samples(domains[0]) == (4, 4)


def test_every_domain_has_its_own_train_and_test_part(tmp_path: Path) -> None:
    write_split(tmp_path / "photo")
    write_split(tmp_path / "sketch", first=100)

    with open_domains(tmp_path) as domains:
        assert [domain.name for domain in domains] == ["photo", "sketch"]
        assert [count_samples(domain) for domain in domains] == [(4, 4), (4, 4)]


def test_an_archive_with_a_wrapping_folder_and_readmes_reads_like_the_folder(tmp_path: Path) -> None:
    write_split(tmp_path / "set" / "photo")
    write_split(tmp_path / "set" / "sketch", first=100)
    (tmp_path / "set" / "README.md").write_text("Notes.")
    with tarfile.open(tmp_path / "set.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "set", "set")

    with open_domains(tmp_path / "set.tar.gz", scratch=tmp_path / "scratch") as domains:
        assert [count_samples(domain) for domain in domains] == [(4, 4), (4, 4)]
        assert all(sample.path.exists() for domain in domains for sample in domain.train.samples)

    assert list((tmp_path / "scratch").iterdir()) == []


def test_class_folders_alone_have_no_test_part(tmp_path: Path) -> None:
    write_picture(tmp_path / "cat", 1)
    write_picture(tmp_path / "dog", 2)

    with open_domains(tmp_path) as domains:
        assert [domain.test for domain in domains] == [None]
        assert domains[0].train.labels == ("cat", "dog")


def test_a_csv_has_no_test_part(tmp_path: Path) -> None:
    write_picture(tmp_path, 1)
    write_picture(tmp_path, 2)
    (tmp_path / "all.csv").write_text("file,label\n1.png,cat\n2.png,dog\n")

    with open_domains(tmp_path / "all.csv") as domains:
        assert domains[0].train.labels == ("cat", "dog")
        assert domains[0].test is None


def test_a_picture_in_both_parts_is_refused_or_left_out_of_the_test_part(tmp_path: Path) -> None:
    write_split(tmp_path)
    write_picture(tmp_path / "test" / "cat", 0)  # also in train/cat

    with pytest.raises(DatasetRejected, match="among the training pictures"), open_domains(tmp_path):
        pass
    with open_domains(tmp_path, unreadable="skip") as domains:
        assert count_samples(domains[0]) == (4, 4)
        assert domains[0].test is not None
        assert [refusal.name for refusal in domains[0].test.skipped] == ["test/cat/0.png"]
