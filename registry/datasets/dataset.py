"""A data set: what to learn from and what to be asked about, in one domain or several."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from registry.datasets.file_tree import FileTree
from registry.datasets.label_layouts import unwrap_single_folder
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits
from registry.datasets.loader import is_csv, open_dataset, open_file_tree, validate_tree
from registry.datasets.member_names import quote
from registry.datasets.sample import Dataset, SkippedFile
from registry.datasets.validate import Unreadable
from registry.errors import DatasetRejected

LEARNT_FROM = ("train", "training")
ASKED_ABOUT = ("test", "testing", "val", "valid", "validation")  # the first that is there


@dataclass(frozen=True)
class Domain:
    """Pictures of one kind, in two parts that share no picture."""

    name: str  # empty if the data set has one domain only
    train: Dataset
    test: Dataset | None  # None: the data set does not say


@contextmanager
def open_domains(
    path: Path,
    *,
    scratch: Path | None = None,
    limits: DatasetLimits = DEFAULT_LIMITS,
    unreadable: Unreadable = "refuse",
) -> Iterator[tuple[Domain, ...]]:
    """The domains of the data set at `path`, whose files are there until the context is left.

    Read are `train/CLASS` beside `test/CLASS`, the same below a folder for each domain, and class folders alone;
    otherwise as by `open_collection`.
    """
    if is_csv(path):
        with open_dataset(path, limits=limits, unreadable=unreadable) as collection:
            yield (Domain("", collection, None),)
        return
    with open_file_tree(path, scratch=scratch, limits=limits) as tree:
        yield _domains_of(tree, limits, unreadable)


def _domains_of(tree: FileTree, limits: DatasetLimits, unreadable: Unreadable) -> tuple[Domain, ...]:
    tree = unwrap_single_folder(tree.without_documents())
    if _is_split(tree):
        return (_domain("", tree, limits, unreadable),)
    parts = {name: tree.below(name).without_documents() for name in _folders(tree)}
    if parts and all(_is_split(part) for part in parts.values()):
        return tuple(_domain(name, part, limits, unreadable) for name, part in parts.items())
    return (Domain("", validate_tree(tree, limits, unwrap=False, unreadable=unreadable), None),)


def _folders(tree: FileTree) -> list[str]:
    return sorted({parts[0] for parts in tree.folders})


def _is_split(tree: FileTree) -> bool:
    folders = {name.casefold() for name in _folders(tree)}
    return not folders.isdisjoint(LEARNT_FROM) and not folders.isdisjoint(ASKED_ABOUT)


def _domain(name: str, tree: FileTree, limits: DatasetLimits, unreadable: Unreadable) -> Domain:
    train = validate_tree(_part(tree, LEARNT_FROM), limits, unwrap=False, unreadable=unreadable)
    test = validate_tree(_part(tree, ASKED_ABOUT), limits, unwrap=False, unreadable=unreadable)
    learnt = {sample.digest for sample in train.samples}
    both = [
        SkippedFile(sample.name, "is among the pictures to learn from")
        for sample in test.samples
        if sample.digest in learnt
    ]
    if both and unreadable == "refuse":
        raise DatasetRejected(
            f"{quote(both[0].name)} {both[0].reason} ({len(both)} such), and what was learnt cannot be asked about: "
            "remove it from one of them, or leave it out with --skip-unreadable"
        )
    asked = tuple(sample for sample in test.samples if sample.digest not in learnt)
    return Domain(name, train, Dataset(asked, (*test.refusals, *both)))


def _part(tree: FileTree, names: tuple[str, ...]) -> FileTree:
    found = {name.casefold(): name for name in _folders(tree)}
    return tree.below(next(found[name] for name in names if name in found))
