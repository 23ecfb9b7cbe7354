"""The time left: by what each kind has taken so far."""

import pytest

from registry.datasets.dataset import LabelledPicture
from trainer.recipe import Recipe
from trainer.study.eta import EtaEstimator
from trainer.study.plan import StudyPlan
from trainer.study.training_spec import RELATIVE_COST, TrainingMethod, TrainingSpec


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def training(plan: StudyPlan, way: TrainingMethod = "structured", epochs: int = 2) -> TrainingSpec:
    samples: tuple[LabelledPicture, ...] = plan.train[:10]
    return TrainingSpec(way, samples, Recipe(epochs=epochs, augment="none"))


def test_nothing_is_known_before_anything_is_done(plan: StudyPlan) -> None:
    eta = EtaEstimator([training(plan)], Clock())

    eta.begin("structured")

    assert eta.seconds_left() is None
    assert eta.fraction_done == 0


def test_the_rest_takes_as_long_as_what_is_done_took(plan: StudyPlan) -> None:
    clock = Clock()
    one, other = training(plan), training(plan)
    eta = EtaEstimator([one, other], clock)

    eta.begin("structured")
    clock.now = 3.0
    eta.advance(one)

    assert eta.fraction_done == pytest.approx(1 / 4)
    assert eta.seconds_left() == pytest.approx(9.0)


def test_a_kind_that_was_not_done_yet_is_guessed_by_its_effort_and_corrected_by_its_own_pace(plan: StudyPlan) -> None:
    clock = Clock()
    quick, slow = training(plan), training(plan, "fine-tuning")
    eta = EtaEstimator([quick, slow], clock)

    eta.begin("structured")
    clock.now = 2.0
    eta.advance(quick, epochs=2)
    guessed = eta.seconds_left()
    eta.begin("fine-tuning")
    clock.now = 102.0
    eta.advance(slow)
    eta.end()

    assert guessed == pytest.approx(2.0 * RELATIVE_COST["fine-tuning"])
    assert eta.seconds_left() == pytest.approx(100.0)


def test_nothing_is_left_when_all_is_done(plan: StudyPlan) -> None:
    clock = Clock()
    only = training(plan)
    eta = EtaEstimator([only], clock)

    eta.begin("structured")
    clock.now = 1.0
    eta.advance(only, epochs=2)

    assert eta.seconds_left() == 0
    assert eta.fraction_done == 1
