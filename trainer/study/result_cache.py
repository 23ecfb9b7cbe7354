"""The disk cache of a study, with which a later run continues: prompts, logits and embeddings of test pictures."""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from alacarte.prompting.errors import ArtifactInvalid
from alacarte.prompting.prompt.artifact import read_prompt, write_bytes, write_prompt
from alacarte.prompting.prompt.tensors import TrainedPrompt

# n pictures, C labels, D width


class ResultCache:
    """A folder of files named by cache keys; a damaged file counts as missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def prompt(self, key: str) -> TrainedPrompt | None:
        """Read the prompt of a training; None if it is missing or unreadable."""
        file = self._path(key)
        try:
            return read_prompt(file) if file.exists() else None
        except ArtifactInvalid:
            return None

    def put_prompt(self, key: str, prompt: TrainedPrompt) -> None:
        """Write the prompt of a training."""
        write_prompt(prompt, self._path(key))

    def logits(self, key: str, pictures: str) -> tuple[tuple[str, ...], Tensor] | None:
        """Read the labels and the logits (n, C) of a trained member for these pictures."""
        found = self._read(f"{key}-{pictures}")
        return None if found is None else (tuple(json.loads(found[0]["labels"])), found[1]["logits"])

    def put_logits(self, key: str, pictures: str, labels: tuple[str, ...], logits: Tensor) -> None:
        """Write the labels and the logits of a trained member for these pictures."""
        self._write(f"{key}-{pictures}", {"logits": logits}, {"labels": json.dumps(labels)})

    def embedding(self, pictures: str) -> Tensor | None:
        """Read the backbone's embedding (n, D) of these pictures."""
        found = self._read(f"embedding-{pictures}")
        return None if found is None else found[1]["embedding"]

    def put_embedding(self, pictures: str, embedding: Tensor) -> None:
        """Write the backbone's embedding of these pictures."""
        self._write(f"embedding-{pictures}", {"embedding": embedding}, {})

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"

    def _read(self, name: str) -> tuple[Mapping[str, str], Mapping[str, Tensor]] | None:
        file = self._path(name)
        if not file.exists():
            return None
        try:
            with safe_open(file, framework="pt") as opened:
                return opened.metadata() or {}, {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return None

    def _write(self, name: str, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
        dense = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        write_bytes(save(dense, metadata), self._path(name))
