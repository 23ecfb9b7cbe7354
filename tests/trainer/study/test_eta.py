"""The remaining time is estimated from the measured time of each cost class."""

import pytest

from trainer.recipe import Recipe
from trainer.study.eta import EtaEstimator
from trainer.study.plan import StudyPlan
from trainer.study.training_spec import RELATIVE_COST, TrainingMethod, TrainingSpec


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def training(plan: StudyPlan, way: TrainingMethod = "structured", epochs: int = 2) -> TrainingSpec:
    return TrainingSpec(way, plan.train[:10], Recipe(epochs=epochs, augment="none"))


def test_there_is_no_estimate_before_the_first_epoch(plan: StudyPlan) -> None:
    eta = EtaEstimator([training(plan)], FakeClock())

    eta.begin("structured")

    assert eta.seconds_left() is None
    assert eta.fraction_done == 0


def test_the_rest_is_estimated_at_the_measured_pace(plan: StudyPlan) -> None:
    clock = FakeClock()
    one, other = training(plan), training(plan)
    eta = EtaEstimator([one, other], clock)

    eta.begin("structured")
    clock.now = 3.0
    eta.advance(one)

    assert eta.fraction_done == pytest.approx(1 / 4)
    assert eta.seconds_left() == pytest.approx(9.0)


def test_a_cost_class_is_estimated_by_its_relative_cost_until_it_is_measured(plan: StudyPlan) -> None:
    clock = FakeClock()
    quick, slow = training(plan), training(plan, "fine-tuning")
    eta = EtaEstimator([quick, slow], clock)

    eta.begin("structured")
    clock.now = 2.0
    eta.advance(quick, epochs=2)
    estimate = eta.seconds_left()
    eta.begin("fine-tuning")
    clock.now = 102.0
    eta.advance(slow)
    eta.end()

    assert estimate == pytest.approx(2.0 * RELATIVE_COST["fine-tuning"])
    assert eta.seconds_left() == pytest.approx(100.0)


def test_nothing_is_left_when_all_is_done(plan: StudyPlan) -> None:
    clock = FakeClock()
    only = training(plan)
    eta = EtaEstimator([only], clock)

    eta.begin("structured")
    clock.now = 1.0
    eta.advance(only, epochs=2)

    assert eta.seconds_left() == 0
    assert eta.fraction_done == 1
