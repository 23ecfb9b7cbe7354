"""What a study keeps, so that a later run goes on where an earlier one ended: prompts, and answers to test pictures."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from alacarte.prompting.errors import ArtifactInvalid
from alacarte.prompting.prompt.artifact import read_prompt, write_bytes, write_prompt
from alacarte.prompting.prompt.tensors import Prompt

# n pictures, C labels, D width


class Kept:
    """A folder of outcomes, each under the digest of everything that it depends on; what is damaged is made anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def prompt(self, key: str) -> Prompt | None:
        """The prompt under this key, if there is one that can be read."""
        file = self._folder / f"{key}.safetensors"
        try:
            return read_prompt(file) if file.exists() else None
        except ArtifactInvalid:
            return None

    def keep_prompt(self, key: str, prompt: Prompt) -> None:
        """Keep the prompt under this key."""
        write_prompt(prompt, self._folder / f"{key}.safetensors")

    def logits(self, key: str, pictures: str) -> tuple[tuple[str, ...], Tensor] | None:
        """The labels, and the logits (n, C) of the outcome under this key for these pictures."""
        found = self._read(f"{key}-{pictures}")
        return None if found is None else (tuple(json.loads(found[0]["labels"])), found[1]["logits"])

    def keep_logits(self, key: str, pictures: str, labels: tuple[str, ...], logits: Tensor) -> None:
        """Keep what an outcome says of pictures."""
        self._write(f"{key}-{pictures}", {"logits": logits}, {"labels": json.dumps(labels)})

    def embedding(self, pictures: str) -> Tensor | None:
        """What the backbone alone sees in these pictures, (n, D)."""
        found = self._read(f"embedding-{pictures}")
        return None if found is None else found[1]["embedding"]

    def keep_embedding(self, pictures: str, embedding: Tensor) -> None:
        """Keep what the backbone sees in pictures."""
        self._write(f"embedding-{pictures}", {"embedding": embedding}, {})

    def _read(self, name: str) -> tuple[Mapping[str, str], Mapping[str, Tensor]] | None:
        file = self._folder / f"{name}.safetensors"
        if not file.exists():
            return None
        try:
            with safe_open(file, framework="pt") as opened:
                return opened.metadata() or {}, {each: opened.get_tensor(each) for each in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return None

    def _write(self, name: str, tensors: Mapping[str, Tensor], facts: dict[str, str]) -> None:
        dense = {each: tensor.detach().cpu().contiguous() for each, tensor in tensors.items()}
        write_bytes(save(dense, facts), self._folder / f"{name}.safetensors")
