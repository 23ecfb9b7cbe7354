"""The time left: by what each kind has taken so far."""

import pytest

from registry.datasets.sample import Sample
from trainer.recipe import Recipe
from trainer.study.eta import Outlook
from trainer.study.plan import Plan
from trainer.study.train_prompts import EFFORT, Training, Way


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def training(plan: Plan, way: Way = "structured", epochs: int = 2) -> Training:
    samples: tuple[Sample, ...] = plan.train[:10]
    return Training(way, samples, Recipe(epochs=epochs, augment="none"))


def test_nothing_is_known_before_anything_is_done(plan: Plan) -> None:
    outlook = Outlook([training(plan)], Clock())

    outlook.begin("structured")

    assert outlook.seconds_left() is None
    assert outlook.share_done == 0


def test_the_rest_takes_as_long_as_what_is_done_took(plan: Plan) -> None:
    clock = Clock()
    one, other = training(plan), training(plan)
    outlook = Outlook([one, other], clock)

    outlook.begin("structured")
    clock.now = 3.0
    outlook.advance(one)

    assert outlook.share_done == pytest.approx(1 / 4)
    assert outlook.seconds_left() == pytest.approx(9.0)


def test_a_kind_that_was_not_done_yet_is_guessed_by_its_effort_and_corrected_by_its_own_pace(plan: Plan) -> None:
    clock = Clock()
    quick, slow = training(plan), training(plan, "fine-tuning")
    outlook = Outlook([quick, slow], clock)

    outlook.begin("structured")
    clock.now = 2.0
    outlook.advance(quick, epochs=2)
    guessed = outlook.seconds_left()
    outlook.begin("fine-tuning")
    clock.now = 102.0
    outlook.advance(slow)
    outlook.end()

    assert guessed == pytest.approx(2.0 * EFFORT["fine-tuning"])
    assert outlook.seconds_left() == pytest.approx(100.0)


def test_nothing_is_left_when_all_is_done(plan: Plan) -> None:
    clock = Clock()
    only = training(plan)
    outlook = Outlook([only], clock)

    outlook.begin("structured")
    clock.now = 1.0
    outlook.advance(only, epochs=2)

    assert outlook.seconds_left() == 0
    assert outlook.share_done == 1
