"""The state cache changes the time of training only, and leaves no file."""

import errno
import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest
import timm
import torch
from torch import Tensor

from alacarte.prompting.attention.train_forward import compute_states, state_shape
from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import PictureDecodeError
from alacarte.prompting.threads import one_thread
from registry.datasets.dataset import LabelledPicture
from tests.prompting.reference import small_backbone
from tests.trainer.pictures import Samples, draw_samples
from trainer.errors import ScratchFull, StatesNotFinite, TrainingError
from trainer.recipe import Recipe
from trainer.state_cache import STATE_DTYPE, StateCache
from trainer.train import train_prompt
from trainer.views import View

LARGE = 10**8


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each sample was decoded."""
    counted: Counter[str] = Counter()
    load = View.load

    def counting(self: View, preprocessing: Preprocessing) -> Tensor:
        counted[self.sample.digest] += 1
        return load(self, preprocessing)

    monkeypatch.setattr(View, "load", counting)
    return counted


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def bytes_each(backbone: Backbone) -> int:
    return torch.empty(state_shape(backbone), dtype=STATE_DTYPE).nbytes


def batches(samples: Samples, size: int = 5) -> Iterator[list[View]]:
    views = [View(sample) for sample in samples]
    for start in range(0, len(views), size):
        yield views[start : start + size]


def mappings_of(folder: Path) -> list[str]:
    """List the files of the folder that this process has mapped or open, with or without a name."""
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            opened.append(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return mapped + [name for name in opened if str(folder) in name]


@pytest.mark.parametrize("capacity", [0, 1, 5, 12, 40])
def test_every_picture_gets_its_own_states_whatever_is_kept(
    capacity: int, backbone: Backbone, samples: Samples
) -> None:
    with StateCache(backbone, capacity * bytes_each(backbone), 12) as cache:
        for _ in range(2):  # computed, then perhaps kept
            batch_states = list(cache.iter_states(batches(samples)))

            assert [view.sample for one in batch_states for view in one.views] == list(samples)
            states = [state for one in batch_states for state in one.states]
            embeddings = torch.cat([one.embedding for one in batch_states])
            for sample, state, embedding in zip(samples, states, embeddings, strict=True):
                alone = torch.empty(1, *state_shape(backbone), dtype=STATE_DTYPE)
                image = View(sample).load(backbone.preprocessing)
                with one_thread():  # as the cache computes: other bits on more of them
                    torch.testing.assert_close(embedding[None], compute_states(backbone, image[None], alone))
                assert torch.equal(state, alone[0])
        assert cache.kept_views == min(capacity, 12)


@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    [
        ("vit_tiny_patch16_224", 64, torch.float32),
        ("vit_tiny_patch16_224", 224, torch.float32),
        ("vit_tiny_patch16_224", 384, torch.float32),
        ("vit_tiny_patch16_224", 224, torch.bfloat16),
        ("vit_base_patch16_224", 96, torch.float32),
        ("vit_small_patch14_reg4_dinov2", 112, torch.float32),
    ],
)
def test_the_states_of_a_picture_do_not_depend_on_the_others_in_its_pass(
    name: str, size: int, dtype: torch.dtype, tmp_path: Path
) -> None:
    """With the real width and length, where matrix products have several kernels to choose from."""
    model = timm.create_model(name, num_classes=0, img_size=size, depth=2)
    backbone = Backbone(model, name, Preprocessing(size, 1.0, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), dtype=dtype)
    samples = draw_samples(tmp_path, 5)
    states_of: dict[str, list[tuple[Tensor, Tensor]]] = {sample.digest: [] for sample in samples}

    for order in (samples, samples[::-1], samples[2:] + samples[:2]):
        for together in (1, 2, 3, 5):  # alone, in a pair, and with an odd one that is left over
            with StateCache(backbone) as cache:
                for batch_states in cache.iter_states(batches(order, together)):
                    for view, state, embedding in zip(
                        batch_states.views, batch_states.states, batch_states.embedding, strict=True
                    ):
                        states_of[view.sample.digest].append((state, embedding))

    for (first, first_embedding), *others in states_of.values():
        assert len(others) == 11
        assert all(torch.equal(first, state) for state, _ in others)
        assert all(torch.equal(first_embedding, embedding) for _, embedding in others)


def test_a_cache_of_another_backbone_is_refused(backbone: Backbone, samples: Samples) -> None:
    with StateCache(small_backbone("plain", seed=1)) as cache, pytest.raises(TrainingError, match="another backbone"):
        train_prompt(backbone, samples, Recipe(epochs=1), cache)


def test_states_beyond_half_precision_are_an_error_of_their_own(samples: Samples) -> None:
    backbone = small_backbone("plain", seed=2)
    for block in backbone.model.blocks:
        block.attn.qkv.weight.mul_(1e8)

    with StateCache(backbone) as cache, pytest.raises(StatesNotFinite, match="do not fit half precision"):
        list(cache.iter_states(batches(samples)))


def test_two_threads_never_share_a_slot(backbone: Backbone, samples: Samples) -> None:
    capacity = len(samples)
    with StateCache(backbone, capacity * bytes_each(backbone), capacity) as cache:
        walks = [Thread(target=lambda: list(cache.iter_states(batches(samples, 1)))) for _ in range(4)]
        for walk in walks:
            walk.start()
        for walk in walks:
            walk.join()

        assert cache.kept_views == capacity
        cached = torch.cat([batch_states.states[0] for batch_states in cache.iter_states(batches(samples, 1))])
    with StateCache(backbone) as alone:
        assert torch.equal(
            cached, torch.cat([batch_states.states[0] for batch_states in alone.iter_states(batches(samples, 1))])
        )


def test_kept_views_are_computed_once_and_others_every_time(
    backbone: Backbone, samples: Samples, loads: Counter[str]
) -> None:
    with StateCache(backbone, 4 * bytes_each(backbone), 12) as cache:
        for _ in range(3):
            list(cache.iter_states(batches(samples, 1)))

    assert [loads[sample.digest] for sample in samples] == [1] * 4 + [3] * 8


@pytest.mark.parametrize(("spare_bytes", "views", "cached"), [(LARGE, 3, 3), (-1, 12, 2)], ids=["views", "budget"])
def test_no_more_views_are_kept_than_given_and_than_fit_the_budget(
    spare_bytes: int, views: int, cached: int, backbone: Backbone, samples: Samples
) -> None:
    with StateCache(backbone, 3 * bytes_each(backbone) + spare_bytes, views) as cache:
        list(cache.iter_states(batches(samples)))

        assert cache.kept_views == cached


def test_a_view_that_is_twice_in_a_batch_is_computed_once(
    backbone: Backbone, samples: Samples, loads: Counter[str]
) -> None:
    with StateCache(backbone) as cache:
        (batch_states,) = cache.iter_states([[View(samples[0]), View(samples[1]), View(samples[0])]])

    assert loads == {samples[0].digest: 1, samples[1].digest: 1}
    assert torch.equal(batch_states.states[0], batch_states.states[2])


def test_views_of_another_number_or_seed_are_kept_separately(backbone: Backbone, samples: Samples) -> None:
    views = [View(samples[0], number, seed) for number in (None, 0, 1) for seed in (0, 1)]

    with StateCache(backbone, LARGE, views=12) as cache:
        list(cache.iter_states([views]))

        assert cache.kept_views == 5  # the picture as it is served has no seed


@pytest.mark.parametrize("budget", [0, LARGE])
def test_an_unreadable_picture_raises_in_its_iteration_only(
    budget: int, backbone: Backbone, samples: Samples, tmp_path: Path
) -> None:
    gone = LabelledPicture("red", "gone.png", "0" * 64, tmp_path / "gone.png")

    with StateCache(backbone, budget, 12) as cache:
        with pytest.raises(PictureDecodeError, match=r"gone\.png"):
            list(cache.iter_states([[View(samples[0])], [View(gone)], [View(samples[1])]]))

        (batch_states,) = cache.iter_states([[View(samples[0]), View(samples[1])]])
        assert len(batch_states.states) == 2


def test_the_cache_can_be_closed_during_an_iteration(backbone: Backbone, samples: Samples) -> None:
    with StateCache(backbone, LARGE, 12) as cache:
        walk = cache.iter_states(batches(samples, 1))
        next(walk)

    assert cache.kept_views == 0


def test_the_file_has_no_name_and_is_gone_after_closing(backbone: Backbone, samples: Samples, scratch: Path) -> None:
    cache = StateCache(backbone, LARGE, 12, scratch)
    named = [list(scratch.iterdir()) for _ in cache.iter_states(batches(samples))]
    assert named == [[]] * 3
    assert mappings_of(scratch)  # it is there, and the next lines look in the right place

    cache.close()
    gc.collect()

    assert mappings_of(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_budget_of_zero_makes_no_file(backbone: Backbone, scratch: Path) -> None:
    with StateCache(backbone, bytes_each(backbone) - 1, 12, scratch):
        assert mappings_of(scratch) == []


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (errno.ENOSPC, ScratchFull, r"no space for a state cache of .* GB in .*scratch"),
        (errno.EIO, OSError, os.strerror(errno.EIO)),
    ],
    ids=["full", "another error"],
)
def test_a_disk_without_space_for_the_budget_is_refused_before_training(
    number: int,
    error: type[Exception],
    message: str,
    backbone: Backbone,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=OSError(number, os.strerror(number))))

    with pytest.raises(error, match=message):
        StateCache(backbone, LARGE, 12, scratch)

    assert mappings_of(scratch) == []
    assert list(scratch.iterdir()) == []


def test_the_disk_space_is_allocated_at_once(
    backbone: Backbone, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = os.posix_fallocate

    def counting(descriptor: int, offset: int, size: int) -> None:
        take(descriptor, offset, size)
        taken.append(os.fstat(descriptor).st_blocks * 512)

    monkeypatch.setattr(os, "posix_fallocate", counting)

    with StateCache(backbone, LARGE, 100, scratch):
        (bytes_on_disk,) = taken
    assert bytes_on_disk >= 100 * bytes_each(backbone)
