"""Names of prompt files: those that a file, folder or pattern selects, and those that training writes."""

import glob
from collections.abc import Iterable
from pathlib import Path

from alacarte.cli.errors import CommandError

SHARD = "shard-"
SUFFIX = ".safetensors"


def find_prompt_files(names: Iterable[str]) -> list[Path]:
    """Return the files that the names select, each once, sorted within a name."""
    found: dict[Path, Path] = {}  # resolved path -> path as given
    for name in names:
        for path in _expand(name):
            path.stat()  # raises OSError with the name
            found.setdefault(path.resolve(), path)
    return list(found.values())


def name_shards(shards: int) -> list[str]:
    """Return a file name without suffix for each shard; names sort like numbers."""
    digits = len(str(shards - 1))
    return [f"{SHARD}{number:0{digits}}" for number in range(shards)]


def find_earlier_prompts(folder: Path, force: bool) -> list[Path]:
    """Return the prompt files of an earlier training in the folder; CommandError unless `force`.

    All of them count: any that remained would mix two trainings.
    """
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder: give another with --out")
    earlier = sorted(folder.glob(f"{SHARD}*{SUFFIX}"))
    if earlier and not force:
        raise CommandError(f"{earlier[0]} exists already: give another folder with --out, or replace it with --force")
    return earlier


def _expand(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.is_dir():
        inside = sorted(file for file in path.glob(f"*{SUFFIX}") if file.is_file())
        if not inside:
            raise CommandError(f"the folder {name} has no prompts: no file ends in {SUFFIX}")
        return inside
    if path.exists() or not glob.has_magic(name):
        return [path]
    matching = map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207  # also absolute ones
    files = sorted(file for file in matching if file.is_file())
    if not files:
        raise CommandError(f"no prompt file matches {name}")
    return files
