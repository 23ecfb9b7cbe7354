"""How a collection says its labels: by a table, by files beside the pictures, or by class folders."""

from collections import defaultdict

from registry.datasets.annotations import Annotation, AnnotationSet
from registry.datasets.csv_labels import annotate_from_csv, read_csv
from registry.datasets.file_tree import DatasetFile, FileTree
from registry.datasets.folder_reader import open_file
from registry.datasets.limits import DatasetLimits
from registry.datasets.member_names import normalize_label, quote
from registry.datasets.picture import is_picture
from registry.datasets.sample import SkippedFile
from registry.datasets.webdataset import annotate_from_label_files, has_label_files
from registry.errors import DatasetRejected

SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"})
HOW_TO = "put each picture into a folder named by its label, or add a CSV with the columns file and label"


def annotate(tree: FileTree, limits: DatasetLimits, *, unwrap: bool) -> AnnotationSet:
    """What the collection says about its files; a lone folder around everything is looked into."""
    tree = tree.without_documents()
    if unwrap:
        tree = unwrap_single_folder(tree)
    if not tree.members and not tree.folders:
        raise DatasetRejected(f"the collection is empty: {HOW_TO}")
    tables = _tables(tree)
    if len(tables) > 1:
        names = ", ".join(quote(table.name) for table in tables[:5])
        raise DatasetRejected(f"several tables ({names}): leave one CSV beside the pictures")
    if tables:
        with open_file(tables[0]) as file:
            rows = read_csv(file, tables[0].name, limits)
        return annotate_from_csv(tree, rows, table=tables[0])
    if has_label_files(tree):
        return annotate_from_label_files(tree, limits)
    return _label_by_folders(tree, limits)


def _tables(tree: FileTree) -> list[DatasetFile]:
    return [m for m in tree.members if len(m.parts) == 1 and m.parts[0].casefold().endswith(".csv")]


def unwrap_single_folder(tree: FileTree) -> FileTree:
    """The tree below its only folder, unless that is a class: one that holds pictures itself."""
    roots = {m.parts[0] for m in tree.members} | {parts[0] for parts in tree.folders}
    root = min(roots, default="")
    if len(roots) != 1 or (root,) not in tree.folders:
        return tree
    inner = tree.below(root).without_documents()
    if _tables(inner):
        return inner
    if not inner.folders or _has_picture([m for m in inner.members if len(m.parts) == 1]):
        return tree
    return inner


def _label_by_folders(tree: FileTree, limits: DatasetLimits) -> AnnotationSet:
    if not tree.folders:
        raise DatasetRejected(f"the collection has no class folders and no labels: {HOW_TO}")
    _refuse_splits(tree)
    labels = {
        parts[0]: normalize_label(parts[0], origin=parts[0], max_length=limits.max_label_length)
        for parts in tree.folders
    }
    return AnnotationSet(
        claims=tuple(Annotation(labels[m.parts[0]], m) for m in tree.members if len(m.parts) > 1),
        labels=frozenset(labels.values()),
        faults=tuple(SkippedFile(m.name, "lies outside any class folder") for m in tree.members if len(m.parts) == 1),
    )


def _refuse_splits(tree: FileTree) -> None:
    """Folders like train/ and test/, taken for classes, would teach nonsense without any error."""
    inner: dict[str, set[str]] = {parts[0]: set() for parts in tree.folders}
    for parts in tree.folders:
        if len(parts) == 2:
            inner[parts[0]].add(parts[1])
    direct: dict[str, list[DatasetFile]] = defaultdict(list)
    for member in tree.members:
        if len(member.parts) == 2:
            direct[member.parts[0]].append(member)
    candidates = {root for root in inner if inner[root] and not _has_picture(direct[root])}
    named = {root for root in candidates if root.casefold() in SPLITS}
    if candidates == inner.keys():
        alike = len(candidates) > 1 and bool(set.intersection(*inner.values()))
        found = candidates if named or alike else set()
    else:
        found = named if len(named) > 1 else set()
    if found:
        first = min(named or found, key=lambda root: (not root.casefold().startswith("train"), root))
        suggestion = f"{tree.top}/{first}" if tree.top else first
        held = ", ".join(quote(root) for root in sorted(found)[:5])
        raise DatasetRejected(
            f"the folders {held} look like parts of a data set, not like classes: pick one with "
            f"within={quote(suggestion)}"
        )


def _has_picture(members: list[DatasetFile]) -> bool:
    for member in members:
        with open_file(member) as file:
            if is_picture(file):
                return True
    return False
