"""Labels from files beside the pictures, as in WebDataset: key.jpg with key.cls, key.json or key.txt."""

import json
from collections import defaultdict

from registry.datasets.annotations import Annotation, AnnotationSet
from registry.datasets.file_tree import DatasetFile, FileTree, PathParts
from registry.datasets.folder_reader import open_file
from registry.datasets.limits import DatasetLimits
from registry.datasets.member_names import describe_error, normalize_label, quote
from registry.datasets.sample import SkippedFile
from registry.errors import DatasetRejected

LABEL_FILES = ("cls", "json", "txt")  # the first that a picture has is its label
LABEL_FILE_BYTES = 64 * 1024


def has_label_files(tree: FileTree) -> bool:
    """Whether pictures have label files: .cls anywhere, others (which may be captions) at the root only."""
    for key, files in _by_key(tree).items():
        labels = files.keys() & set(LABEL_FILES)
        if labels and files.keys() - labels and ("cls" in labels or len(key) == 1):
            return True
    return False


def annotate_from_label_files(tree: FileTree, limits: DatasetLimits) -> AnnotationSet:
    """What the label files say; a picture without one, or one without a picture, is a fault."""
    claims: list[Annotation] = []
    faults: list[SkippedFile] = []
    for files in _by_key(tree).values():
        labels = [files[suffix] for suffix in LABEL_FILES if suffix in files]
        pictures = [member for suffix, member in files.items() if suffix not in LABEL_FILES]
        if len(pictures) > 1:
            names = " and ".join(quote(picture.name) for picture in pictures[:2])
            raise DatasetRejected(f"{names} share one key: give each picture its own")
        if not labels:
            faults.append(SkippedFile(pictures[0].name, "has no label file (.cls, .json, .txt) beside it"))
        elif not pictures:
            faults.append(SkippedFile(labels[0].name, "has no picture beside it"))
        else:
            claims.append(Annotation(_label_in(labels[0], limits), pictures[0]))
    return AnnotationSet(tuple(claims), frozenset(claim.label for claim in claims), tuple(faults))


def _by_key(tree: FileTree) -> dict[PathParts, dict[str, DatasetFile]]:
    groups: dict[PathParts, dict[str, DatasetFile]] = defaultdict(dict)
    for member in sorted(tree.members, key=lambda member: member.parts):
        stem, _, suffix = member.parts[-1].rpartition(".")
        group = groups[(*member.parts[:-1], stem or suffix)]
        # A second file of one suffix, in other letters, counts as another picture.
        group[suffix.lower() if stem and suffix.lower() not in group else member.parts[-1]] = member
    return groups


def _label_in(member: DatasetFile, limits: DatasetLimits) -> str:
    with open_file(member) as file:
        data = file.read(LABEL_FILE_BYTES + 1)
    if len(data) > LABEL_FILE_BYTES:
        raise DatasetRejected(f"{quote(member.name)} is too long for a label: keep only the label in it")
    try:
        text = data.decode("utf-8-sig")
        label = _from_json(text, member) if member.parts[-1].lower().endswith(".json") else text
    except (ValueError, RecursionError) as error:  # also of json
        raise DatasetRejected(
            f"{quote(member.name)} is no readable label ({describe_error(error)}): mend it"
        ) from error
    return normalize_label(label, origin=member.name, max_length=limits.max_label_length)


def _from_json(text: str, member: DatasetFile) -> str:
    content: object = json.loads(text)
    label = content.get("label") if isinstance(content, dict) else None
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if not isinstance(label, str):
        raise DatasetRejected(f'{quote(member.name)} has no "label" of text or a whole number: add one')
    return label
