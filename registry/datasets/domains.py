"""Datasets with a train and a test part, in one domain or several."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alacarte.api.literals import UnreadablePolicy
from registry.datasets.dataset import Dataset, SkippedFile
from registry.datasets.file_tree import FileTree
from registry.datasets.label_layouts import unwrap_single_folder
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits
from registry.datasets.loader import is_csv, open_dataset, open_file_tree, validate_tree
from registry.datasets.member_names import quote
from registry.errors import DatasetRejected

TRAIN_FOLDERS = ("train", "training")
TEST_FOLDERS = ("test", "testing", "val", "valid", "validation")  # the first that exists is used


@dataclass(frozen=True)
class Domain:
    """Train and test pictures of one domain; no picture is in both."""

    name: str  # empty if the dataset has one domain only
    train: Dataset
    test: Dataset | None  # None: the dataset has no test folder


@contextmanager
def open_domains(
    path: Path,
    *,
    scratch: Path | None = None,
    limits: DatasetLimits = DEFAULT_LIMITS,
    unreadable: UnreadablePolicy = "refuse",
) -> Iterator[tuple[Domain, ...]]:
    """Yield the domains of the dataset at `path`; their files exist until the block ends.

    Accepted layouts: `train/CLASS` beside `test/CLASS`, the same below one folder per domain, class folders alone,
    and everything else that `open_dataset` reads.
    """
    if is_csv(path):
        with open_dataset(path, limits=limits, unreadable=unreadable) as dataset:
            yield (Domain("", dataset, None),)
        return
    with open_file_tree(path, scratch=scratch, limits=limits) as tree:
        yield _read_domains(tree, limits, unreadable)


def _read_domains(tree: FileTree, limits: DatasetLimits, unreadable: UnreadablePolicy) -> tuple[Domain, ...]:
    tree = unwrap_single_folder(tree.without_readmes())
    if _has_train_and_test(tree):
        return (_read_domain("", tree, limits, unreadable),)
    subtrees = {name: tree.below(name).without_readmes() for name in _top_folders(tree)}
    if subtrees and all(_has_train_and_test(subtree) for subtree in subtrees.values()):
        return tuple(_read_domain(name, subtree, limits, unreadable) for name, subtree in subtrees.items())
    return (Domain("", validate_tree(tree, limits, unwrap=False, unreadable=unreadable), None),)


def _top_folders(tree: FileTree) -> list[str]:
    return sorted({parts[0] for parts in tree.folders})


def _has_train_and_test(tree: FileTree) -> bool:
    folders = {name.casefold() for name in _top_folders(tree)}
    return not folders.isdisjoint(TRAIN_FOLDERS) and not folders.isdisjoint(TEST_FOLDERS)


def _read_domain(name: str, tree: FileTree, limits: DatasetLimits, unreadable: UnreadablePolicy) -> Domain:
    train = validate_tree(_select_folder(tree, TRAIN_FOLDERS), limits, unwrap=False, unreadable=unreadable)
    test = validate_tree(_select_folder(tree, TEST_FOLDERS), limits, unwrap=False, unreadable=unreadable)
    trained = {sample.digest for sample in train.samples}
    both = [
        SkippedFile(sample.name, "is also among the training pictures")
        for sample in test.samples
        if sample.digest in trained
    ]
    if both and unreadable == "refuse":
        raise DatasetRejected(
            f"{quote(both[0].name)} {both[0].reason} ({len(both)} such): "
            "remove the duplicates from one of the folders, or leave them out with --skip-unreadable"
        )
    unseen = tuple(sample for sample in test.samples if sample.digest not in trained)
    return Domain(name, train, Dataset(unseen, (*test.skipped, *both)))


def _select_folder(tree: FileTree, names: tuple[str, ...]) -> FileTree:
    by_folded_name = {name.casefold(): name for name in _top_folders(tree)}
    return tree.below(next(by_folded_name[name] for name in names if name in by_folded_name))
