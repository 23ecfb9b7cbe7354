"""A batch in parts says what it says in one, on as many threads; and a part that fails leaves nothing behind."""

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from alacarte.prompting.backbone import Backbone
from alacarte.prompting.logits import Seat, pass_logits
from alacarte.prompting.pool import PromptPool, pool_prompts
from service.engine.passing import MAX_PARTS, Passes, parts_of
from tests.prompting.reference import small_images, small_prompt

NAMES = ("first", "second", "third")


@pytest.fixture
def passes() -> Iterator[Passes]:
    """A pass of two threads."""
    passes = Passes(2)
    yield passes
    passes.stop()


@pytest.fixture
def pool(backbone: Backbone) -> PromptPool:
    return pool_prompts(backbone, [small_prompt(backbone, seed=seed).tensors for seed in range(len(NAMES))])


@pytest.fixture
def seats(backbone: Backbone) -> dict[str, Seat]:
    tensors = [small_prompt(backbone, seed=seed).tensors for seed in range(len(NAMES))]
    return {name: Seat(slot, tensors[slot].head_weight, tensors[slot].head_bias) for slot, name in enumerate(NAMES)}


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_parts_are_all_of_a_batch_in_its_order_and_about_equal(threads: int) -> None:
    for images in range(1, 70):
        parts = parts_of(images, threads)

        assert [image for part in parts for image in range(images)[part]] == list(range(images))
        sizes = [part.stop - part.start for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert len(parts) == min(threads, MAX_PARTS, images)


def test_a_lone_picture_is_computed_by_all_threads_and_two_side_by_side() -> None:
    assert parts_of(1, threads=2) == [slice(0, 1)]
    assert parts_of(2, threads=2) == [slice(0, 1), slice(1, 2)]


@pytest.mark.parametrize("count", [1, 2, 8, 11])
def test_a_batch_in_parts_says_what_it_says_in_one(
    backbone: Backbone, passes: Passes, pool: PromptPool, seats: dict[str, Seat], count: int
) -> None:
    images = small_images(backbone, count)
    sets = [NAMES[: 1 + image % len(NAMES)] for image in range(count)]

    logits, embedding = passes(backbone, list(images), pool, sets, seats)

    expected, expected_embedding = pass_logits(backbone, images, pool, sets, seats)
    torch.testing.assert_close(embedding, expected_embedding, rtol=0, atol=1e-5)
    for found, wanted in zip(logits, expected, strict=True):
        assert list(found) == list(wanted)
        for name in found:
            torch.testing.assert_close(found[name], wanted[name], rtol=0, atol=1e-5)


def test_parts_together_compute_with_no_more_threads_than_there_are(
    backbone: Backbone, pool: PromptPool, seats: dict[str, Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []  # images, and the threads that computed them
    embed = backbone.embed

    def noted(images: Tensor) -> Tensor:
        seen.append((len(images), torch.get_num_threads()))
        return embed(images)

    monkeypatch.setattr(backbone, "embed", noted)
    before = torch.get_num_threads()  # of the thread that asks, which has chosen for itself
    passes = Passes(6)

    for _ in range(2):  # also when the part's thread has computed before
        for count in (1, 2, 8):
            passes(backbone, list(small_images(backbone, count)), pool, [NAMES] * count, seats)

    passes.stop()
    assert sorted(seen) == sorted([(1, before)] * 2 + [(1, 3)] * 4 + [(2, 1)] * 8)


def test_a_part_that_fails_waits_for_the_others_and_leaves_nothing_behind(
    backbone: Backbone, passes: Passes, pool: PromptPool, seats: dict[str, Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_failed, ended = threading.Event(), list[int]()
    embed = backbone.embed

    def poisoned(images: Tensor) -> Tensor:
        if torch.isnan(images).any():
            has_failed.set()
            raise RuntimeError("this picture is poison")
        assert has_failed.wait(30)
        found = embed(images)
        ended.append(len(images))
        return found

    monkeypatch.setattr(backbone, "embed", poisoned)
    images = [image.clone() for image in small_images(backbone, 8)]
    images[0].fill_(torch.nan)
    watched = [weakref.ref(image) for image in images]
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(RuntimeError, match="poison"):
            passes(backbone, images, pool, [NAMES] * 8, seats)
        was_over = list(ended)
        del images
        assert not any(image() is not None for image in watched)
    finally:
        gc.enable()
    assert was_over == [4]
