"""Finds a dataset's labels: in a CSV, in WebDataset files beside the pictures, or in the names of class folders."""

import json
from collections import defaultdict

from registry.datasets.csv_labels import annotate_from_csv, read_csv
from registry.datasets.dataset import Annotation, AnnotationSet, SkippedFile
from registry.datasets.file_tree import DatasetFile, FileTree, PathParts
from registry.datasets.folder_reader import open_file
from registry.datasets.limits import DatasetLimits
from registry.datasets.member_names import describe_error, normalize_label, quote
from registry.datasets.picture import is_picture
from registry.errors import DatasetRejected

SPLIT_FOLDERS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"})
LABEL_SUFFIXES = ("cls", "json", "txt")  # as in WebDataset; the first that a picture has beside it is its label
MAX_LABEL_FILE_BYTES = 64 * 1024
HOW_TO_LABEL = "put each picture into a folder named by its label, or add a CSV with the columns file and label"


def annotate(tree: FileTree, limits: DatasetLimits, *, unwrap: bool) -> AnnotationSet:
    """Return the labels that the dataset gives to its files; `unwrap` enters a single top-level folder."""
    tree = tree.without_readmes()
    if unwrap:
        tree = unwrap_single_folder(tree)
    if not tree.files and not tree.folders:
        raise DatasetRejected(f"the dataset is empty: {HOW_TO_LABEL}")
    csv_files = _csv_files(tree)
    if len(csv_files) > 1:
        names = ", ".join(quote(file.name) for file in csv_files[:5])
        raise DatasetRejected(f"the dataset has several CSV files ({names}): leave one beside the pictures")
    if csv_files:
        with open_file(csv_files[0]) as stream:
            rows = read_csv(stream, csv_files[0].name, limits)
        return annotate_from_csv(tree, rows, csv_file=csv_files[0])
    if _has_label_files(tree):
        return _annotate_from_label_files(tree, limits)
    return _annotate_from_folders(tree, limits)


def _csv_files(tree: FileTree) -> list[DatasetFile]:
    return [file for file in tree.files if len(file.parts) == 1 and file.parts[0].casefold().endswith(".csv")]


def unwrap_single_folder(tree: FileTree) -> FileTree:
    """Return the tree below its only top-level folder, unless that folder is a class with pictures of its own."""
    top_names = {file.parts[0] for file in tree.files} | {parts[0] for parts in tree.folders}
    top = min(top_names, default="")
    if len(top_names) != 1 or (top,) not in tree.folders:
        return tree
    inner = tree.below(top).without_readmes()
    if _csv_files(inner):
        return inner
    if not inner.folders or _has_picture([file for file in inner.files if len(file.parts) == 1]):
        return tree
    return inner


def _has_label_files(tree: FileTree) -> bool:
    """Whether pictures have label files: .cls anywhere, others (which may be captions) at the root only."""
    for key, files in _group_by_key(tree).items():
        labels = files.keys() & set(LABEL_SUFFIXES)
        if labels and files.keys() - labels and ("cls" in labels or len(key) == 1):
            return True
    return False


def _annotate_from_label_files(tree: FileTree, limits: DatasetLimits) -> AnnotationSet:
    """Return the annotations in the label files; a picture without one, or one without a picture, is unusable."""
    annotations: list[Annotation] = []
    unusable: list[SkippedFile] = []
    for files in _group_by_key(tree).values():
        labels = [files[suffix] for suffix in LABEL_SUFFIXES if suffix in files]
        pictures = [file for suffix, file in files.items() if suffix not in LABEL_SUFFIXES]
        if len(pictures) > 1:
            names = " and ".join(quote(picture.name) for picture in pictures[:2])
            raise DatasetRejected(f"{names} share one key: give each picture its own")
        if not labels:
            unusable.append(SkippedFile(pictures[0].name, "has no label file (.cls, .json, .txt) beside it"))
        elif not pictures:
            unusable.append(SkippedFile(labels[0].name, "has no picture beside it"))
        else:
            annotations.append(Annotation(_read_label(labels[0], limits), pictures[0]))
    labels_found = frozenset(annotation.label for annotation in annotations)
    return AnnotationSet(tuple(annotations), labels_found, tuple(unusable))


def _group_by_key(tree: FileTree) -> dict[PathParts, dict[str, DatasetFile]]:
    groups: dict[PathParts, dict[str, DatasetFile]] = defaultdict(dict)
    for file in sorted(tree.files, key=lambda file: file.parts):
        stem, _, suffix = file.parts[-1].rpartition(".")
        group = groups[(*file.parts[:-1], stem or suffix)]
        # A second file whose suffix differs only in case counts as another picture.
        group[suffix.lower() if stem and suffix.lower() not in group else file.parts[-1]] = file
    return groups


def _read_label(file: DatasetFile, limits: DatasetLimits) -> str:
    with open_file(file) as stream:
        data = stream.read(MAX_LABEL_FILE_BYTES + 1)
    if len(data) > MAX_LABEL_FILE_BYTES:
        raise DatasetRejected(f"{quote(file.name)} is too long for a label: keep only the label in it")
    try:
        text = data.decode("utf-8-sig")
        label = _parse_json_label(text, file) if file.parts[-1].lower().endswith(".json") else text
    except (ValueError, RecursionError) as error:  # also of json
        raise DatasetRejected(f"{quote(file.name)} is not a valid label file ({describe_error(error)})") from error
    return normalize_label(label, origin=file.name, max_length=limits.max_label_length)


def _parse_json_label(text: str, file: DatasetFile) -> str:
    content: object = json.loads(text)
    label = content.get("label") if isinstance(content, dict) else None
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if not isinstance(label, str):
        raise DatasetRejected(f'{quote(file.name)} needs a "label" that is text or a whole number: add one')
    return label


def _annotate_from_folders(tree: FileTree, limits: DatasetLimits) -> AnnotationSet:
    if not tree.folders:
        raise DatasetRejected(f"the dataset has no class folders and no labels: {HOW_TO_LABEL}")
    _reject_split_folders(tree)
    labels = {
        folder: normalize_label(folder, origin=folder, max_length=limits.max_label_length)
        for folder in {parts[0] for parts in tree.folders}
    }
    outside = [file for file in tree.files if len(file.parts) == 1]
    return AnnotationSet(
        annotations=tuple(Annotation(labels[file.parts[0]], file) for file in tree.files if len(file.parts) > 1),
        labels=frozenset(labels.values()),
        unusable=tuple(SkippedFile(file.name, "lies outside any class folder") for file in outside),
    )


def _reject_split_folders(tree: FileTree) -> None:
    """Reject folders like train/ and test/: taken for classes, they would train nonsense without any error."""
    subfolders: dict[str, set[str]] = {parts[0]: set() for parts in tree.folders}
    for parts in tree.folders:
        if len(parts) == 2:
            subfolders[parts[0]].add(parts[1])
    files_in: dict[str, list[DatasetFile]] = defaultdict(list)
    for file in tree.files:
        if len(file.parts) == 2:
            files_in[file.parts[0]].append(file)
    candidates = {top for top in subfolders if subfolders[top] and not _has_picture(files_in[top])}
    named = {top for top in candidates if top.casefold() in SPLIT_FOLDERS}
    if candidates == subfolders.keys():
        alike = len(candidates) > 1 and bool(set.intersection(*subfolders.values()))
        splits = candidates if named or alike else set()
    else:
        splits = named if len(named) > 1 else set()
    if splits:
        first = min(named or splits, key=lambda top: (not top.casefold().startswith("train"), top))
        suggestion = f"{tree.root}/{first}" if tree.root else first
        names = ", ".join(quote(top) for top in sorted(splits)[:5])
        raise DatasetRejected(
            f"the folders {names} look like parts of a data set, not like classes: pick one with "
            f"within={quote(suggestion)}"
        )


def _has_picture(files: list[DatasetFile]) -> bool:
    for file in files:
        with open_file(file) as stream:
            if is_picture(stream):
                return True
    return False
