"""How a collection says its labels: by a table, by files beside the pictures, or by class folders."""

from collections import defaultdict

from registry.datasets.annotations import Claim, Labelling
from registry.datasets.csv_labels import label_by_table, read_table
from registry.datasets.file_tree import Member, Tree
from registry.datasets.folder_reader import opened
from registry.datasets.limits import Limits
from registry.datasets.member_names import clean_label, shown
from registry.datasets.picture import is_picture
from registry.datasets.sample import Refusal
from registry.datasets.webdataset import are_pairs, label_by_pairs
from registry.errors import CollectionRefused

SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"})
HOW_TO = "put each picture into a folder named by its label, or add a CSV with the columns file and label"


def label_tree(tree: Tree, limits: Limits, *, unwrap: bool) -> Labelling:
    """What the collection says about its files; a lone folder around everything is looked into."""
    tree = tree.without_documents()
    if unwrap:
        tree = unwrapped(tree)
    if not tree.members and not tree.folders:
        raise CollectionRefused(f"the collection is empty: {HOW_TO}")
    tables = _tables(tree)
    if len(tables) > 1:
        names = ", ".join(shown(table.name) for table in tables[:5])
        raise CollectionRefused(f"several tables ({names}): leave one CSV beside the pictures")
    if tables:
        with opened(tables[0]) as file:
            rows = read_table(file, tables[0].name, limits)
        return label_by_table(tree, rows, table=tables[0])
    if are_pairs(tree):
        return label_by_pairs(tree, limits)
    return _label_by_folders(tree, limits)


def _tables(tree: Tree) -> list[Member]:
    return [m for m in tree.members if len(m.parts) == 1 and m.parts[0].casefold().endswith(".csv")]


def unwrapped(tree: Tree) -> Tree:
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


def _label_by_folders(tree: Tree, limits: Limits) -> Labelling:
    if not tree.folders:
        raise CollectionRefused(f"the collection has no class folders and no labels: {HOW_TO}")
    _refuse_splits(tree)
    labels = {
        parts[0]: clean_label(parts[0], origin=parts[0], max_length=limits.max_label_length) for parts in tree.folders
    }
    return Labelling(
        claims=tuple(Claim(labels[m.parts[0]], m) for m in tree.members if len(m.parts) > 1),
        labels=frozenset(labels.values()),
        faults=tuple(Refusal(m.name, "lies outside any class folder") for m in tree.members if len(m.parts) == 1),
    )


def _refuse_splits(tree: Tree) -> None:
    """Folders like train/ and test/, taken for classes, would teach nonsense without any error."""
    inner: dict[str, set[str]] = {parts[0]: set() for parts in tree.folders}
    for parts in tree.folders:
        if len(parts) == 2:
            inner[parts[0]].add(parts[1])
    direct: dict[str, list[Member]] = defaultdict(list)
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
        held = ", ".join(shown(root) for root in sorted(found)[:5])
        raise CollectionRefused(
            f"the folders {held} look like parts of a data set, not like classes: pick one with "
            f"within={shown(suggestion)}"
        )


def _has_picture(members: list[Member]) -> bool:
    for member in members:
        with opened(member) as file:
            if is_picture(file):
                return True
    return False
