"""Prompt files by name: those that a person means by a file, a folder or a pattern, and those that training writes."""

import glob
from collections.abc import Iterable
from pathlib import Path

from alacarte.cli.errors import CommandError

SHARD = "shard-"
SUFFIX = ".safetensors"


def find_prompt_files(names: Iterable[str]) -> list[Path]:
    """The files that the names stand for, each once, sorted within a name."""
    found: dict[Path, Path] = {}  # where it really is -> as it was named
    for name in names:
        for path in _stands_for(name):
            path.stat()  # an OSError with its name
            found.setdefault(path.resolve(), path)
    return list(found.values())


def name_shards(shards: int) -> list[str]:
    """A name for each shard's file, without suffix, that sorts as its number does."""
    digits = len(str(shards - 1))
    return [f"{SHARD}{number:0{digits}}" for number in range(shards)]


def require_room(folder: Path, force: bool) -> list[Path]:
    """The prompt files of an earlier training in the folder, refused unless they are to be replaced.

    All of them count, whatever their number: left beside new ones they would mix two trainings.
    """
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is no folder: give another with --out")
    earlier = sorted(folder.glob(f"{SHARD}*{SUFFIX}"))
    if earlier and not force:
        raise CommandError(f"{earlier[0]} exists already: give another folder with --out, or replace it with --force")
    return earlier


def _stands_for(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.is_dir():
        inside = sorted(file for file in path.glob(f"*{SUFFIX}") if file.is_file())
        if not inside:
            raise CommandError(f"the folder {name} has no prompt in it: no file ends in {SUFFIX}")
        return inside
    if path.exists() or not glob.has_magic(name):
        return [path]
    matching = map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207  # also absolute ones
    files = sorted(file for file in matching if file.is_file())
    if not files:
        raise CommandError(f"no prompt file matches {name}")
    return files
