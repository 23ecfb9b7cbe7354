"""Labels from files beside the pictures, as in WebDataset: key.jpg with key.cls, key.json or key.txt."""

import json
from collections import defaultdict

from registry.datasets.dataset import Annotation, AnnotationSet, SkippedFile
from registry.datasets.file_tree import DatasetFile, FileTree, PathParts
from registry.datasets.folder_reader import open_file
from registry.datasets.limits import DatasetLimits
from registry.datasets.member_names import describe_error, normalize_label, quote
from registry.errors import DatasetRejected

LABEL_SUFFIXES = ("cls", "json", "txt")  # the first that a picture has is its label
MAX_LABEL_FILE_BYTES = 64 * 1024


def has_label_files(tree: FileTree) -> bool:
    """Whether pictures have label files: .cls anywhere, others (which may be captions) at the root only."""
    for key, files in _group_by_key(tree).items():
        labels = files.keys() & set(LABEL_SUFFIXES)
        if labels and files.keys() - labels and ("cls" in labels or len(key) == 1):
            return True
    return False


def annotate_from_label_files(tree: FileTree, limits: DatasetLimits) -> AnnotationSet:
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
