"""Code that computes with one thread restores the number of threads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.threads import one_thread
from tests.trainer.pictures import Samples
from trainer.state_cache import StateCache
from trainer.views import served_batches


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def test_one_thread_restores_the_previous_number_of_threads(three_threads: None) -> None:
    with one_thread():
        assert torch.get_num_threads() == 1

    assert torch.get_num_threads() == 3
    assert threads_of_a_new_thread() == 3


def test_overlapping_caches_restore_the_number_of_threads_that_new_threads_inherit(
    three_threads: None, backbone: Backbone, samples: Samples
) -> None:
    """The second is made while the first is open, and closed after it."""
    first = StateCache(backbone)
    list(first.iter_states(served_batches(samples, 4)))
    with ThreadPoolExecutor(1) as other:
        second = other.submit(StateCache, backbone).result()
        list(second.iter_states(served_batches(samples, 4)))
        first.close()
        other.submit(second.close).result()

    assert torch.get_num_threads() == 3
    assert threads_of_a_new_thread() == 3
