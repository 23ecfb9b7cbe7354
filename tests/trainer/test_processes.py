"""Training in another process gives the same bytes, and leaves nothing when it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from tests.trainer.pictures import Samples
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import train_prompt

ROOT = Path(__file__).parents[2]
RECIPE = Recipe(epochs=3, batch=4, memory=2, prototypes=3, base_rate=1.0)

# Trains once and says the digest; then goes on training, and says so, until it is killed.
STRANGER = """
import sys
from dataclasses import replace
from pathlib import Path
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from tests.prompting.reference import small_backbone
from tests.trainer.pictures import draw_samples
from tests.trainer.test_processes import RECIPE
from trainer.state_cache import StateCache
from trainer.train import train_prompt

pictures, scratch = map(Path, sys.argv[1:])
backbone, samples = small_backbone(), draw_samples(pictures, 12)
with StateCache(backbone, 10**8, 100, scratch) as cache:
    print(prompt_digest(prompt_to_bytes(train_prompt(backbone, samples, RECIPE, cache))), flush=True)
    endless = replace(RECIPE, epochs=10**9, augment="none")
    train_prompt(backbone, samples, endless, cache, lambda progress: print("epoch", flush=True))
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def training_process(tmp_path: Path, scratch: Path) -> Iterator[subprocess.Popen[str]]:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    unlike = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    command = [sys.executable, "-c", STRANGER, str(pictures), str(scratch)]
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | unlike, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_another_process_trains_the_same_bytes_and_leaves_nothing_when_killed(
    backbone: Backbone, samples: Samples, training_process: subprocess.Popen[str], scratch: Path
) -> None:
    with StateCache(backbone) as cache:
        ours = prompt_digest(prompt_to_bytes(train_prompt(backbone, samples, RECIPE, cache)))
    assert training_process.stdout is not None

    assert training_process.stdout.readline().strip() == ours

    assert training_process.stdout.readline().strip() == "epoch"  # it is in the midst of its next training
    assert str(scratch) in Path(f"/proc/{training_process.pid}/maps").read_text()  # and keeps states there
    assert list(scratch.iterdir()) == []
    training_process.send_signal(signal.SIGKILL)
    assert training_process.wait() == -signal.SIGKILL
    assert list(scratch.iterdir()) == []
