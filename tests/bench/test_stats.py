"""The statistics of the serving benchmark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.serving.stats import mean_seconds, median_stages, percentile, ratio, stage_seconds, steady_state


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 101)]

    assert [percentile(values, percent) for percent in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([7.0], 99) == 7.0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_the_right_share_of_values_is_at_or_below_a_percentile(values: list[float], percent: int) -> None:
    result = percentile(values, percent)

    assert result in values
    assert sum(value <= result for value in values) * 100 >= percent * len(values)
    assert sum(value < result for value in values) * 100 < percent * len(values)


def test_nothing_measured_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


def test_responses_in_the_warm_up_and_after_the_end_do_not_count() -> None:
    sent, answered = [0.0, 0.5, 1.0, 1.5, 2.9], [0.9, 1.0, 1.5, 2.0, 3.1]

    per_second, seconds = steady_state(0.0, 3.0, sent, answered, warmup_s=1.0)

    assert seconds == [0.5, 0.5, 0.5]
    assert per_second == pytest.approx(2.0)
    with pytest.raises(ValueError, match="increase --seconds"):
        steady_state(0.0, 1.2, sent, answered, warmup_s=1.0)


@pytest.mark.parametrize("ended", [3.01, 3.5, 3.99])
def test_the_rate_does_not_depend_on_when_in_a_batch_the_measurement_ends(ended: float) -> None:
    answered = [float(batch) for batch in range(1, 10) for _ in range(8)]

    per_second, _ = steady_state(0.0, ended, [0.0] * len(answered), answered, warmup_s=0.5)

    assert per_second == pytest.approx(8.0)


def test_a_round_that_is_slow_for_both_does_not_change_their_ratio() -> None:
    assert ratio([10.0, 1.0, 30.0], [5.0, 0.5, 10.0]) == 2.0
    with pytest.raises(ValueError, match="argument 2"):
        ratio([1.0, 2.0], [1.0])


def test_the_mean_of_a_histogram_covers_what_came_between_two_readings() -> None:
    before = {'rights_count{phase="initial"}': 2.0, 'rights_sum{phase="initial"}': 1.0}
    after = {'rights_count{phase="initial"}': 6.0, 'rights_sum{phase="initial"}': 3.0}

    assert mean_seconds(before, after, "rights", '{phase="initial"}') == 0.5
    assert mean_seconds({}, after, "rights", '{phase="initial"}') == 0.5
    assert mean_seconds(after, after, "rights", '{phase="initial"}') is None
    assert mean_seconds(before, after, "rights", '{phase="recheck"}') is None


def test_the_stages_of_a_request_add_up_to_its_time() -> None:
    result = stage_seconds(10.0, [("accept", 10.5), ("auth", 11.5), ("pass", 15.0)], 15.25)

    assert result == {"accept": 0.5, "auth": 1.0, "pass": 3.5, "return": 0.25}
    assert sum(result.values()) == 5.25


def test_a_stage_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="one at a time"):
        stage_seconds(0.0, [("auth", 1.0), ("pass", 2.0), ("auth", 3.0)], 4.0)


def test_stages_keep_their_order_in_the_medians() -> None:
    requests = [{"accept": 1.0, "pass": 9.0}, {"accept": 3.0, "pass": 5.0}, {"accept": 2.0, "pass": 7.0}]

    assert list(median_stages(requests).items()) == [("accept", 2.0), ("pass", 7.0)]
