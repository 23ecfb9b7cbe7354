"""The rate limit with a fake clock, and over HTTP."""

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from service.auth.rate_limit import RateLimiter
from service.errors import TooManyRequests
from tests.service.conftest import MakeDeployment

# Waits between requests, in sixteenths of a second, so that sums are exact.
Waits = st.lists(st.integers(0, 64), max_size=80)
RATES = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0, 16.0])
BURSTS = st.integers(1, 8)


class Clock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def retry_after(limiter: RateLimiter, name: str = "a") -> int | None:
    """Return the seconds to wait if the request is refused."""
    try:
        limiter.acquire(name)
    except TooManyRequests as refusal:
        return refusal.retry_after
    return None


def is_allowed(limiter: RateLimiter, name: str = "a") -> bool:
    return retry_after(limiter, name) is None


def allowed_times(rate: float, burst: int, waits: Sequence[int], others: int = 0) -> list[float]:
    """Return when requests of a token were allowed, each after so many requests of another token."""
    clock = Clock()
    limiter = RateLimiter(rate, burst, clock)
    times = []
    for wait in waits:
        clock.now += wait / 16
        for _ in range(others):
            is_allowed(limiter, "b")
        if is_allowed(limiter):
            times.append(clock.now)
    return times


@given(RATES, BURSTS, Waits)
def test_no_interval_has_more_requests_than_burst_and_rate_allow(rate: float, burst: int, waits: list[int]) -> None:
    times = allowed_times(rate, burst, waits)

    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + rate * (times[last] - times[first]) + 1e-6


@given(RATES, BURSTS, Waits)
def test_a_request_is_refused_only_when_a_token_bucket_is_empty(rate: float, burst: int, waits: list[int]) -> None:
    clock = Clock()
    limiter = RateLimiter(rate, burst, clock)
    level = float(burst)
    for wait in waits:
        clock.now += wait / 16
        level = min(float(burst), level + rate * wait / 16)
        is_due = level >= 1 - 1e-9
        level -= is_due

        assert is_allowed(limiter) is is_due


@given(RATES, BURSTS, Waits)
def test_a_request_is_allowed_after_the_announced_wait(rate: float, burst: int, waits: list[int]) -> None:
    clock = Clock()
    limiter = RateLimiter(rate, burst, clock)
    for wait in waits:
        clock.now += wait / 16
        if (seconds := retry_after(limiter)) is not None:
            assert 1 <= seconds <= math.ceil(1 / rate)
            clock.now += seconds
            assert is_allowed(limiter)


@given(RATES, BURSTS, Waits)
def test_one_token_does_not_slow_another(rate: float, burst: int, waits: list[int]) -> None:
    assert allowed_times(rate, burst, waits, others=3) == allowed_times(rate, burst, waits)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=200), st.integers(1, 10))
def test_memory_is_bounded_however_many_tokens_come(requests: list[tuple[int, int]], most: int) -> None:
    clock = Clock()
    limiter = RateLimiter(1.0, 2, clock, max_buckets=most)
    for name, wait in requests:
        clock.now += wait / 16
        is_allowed(limiter, str(name))

        assert len(limiter) <= most


def test_idle_tokens_take_no_memory() -> None:
    clock = Clock()
    limiter = RateLimiter(10.0, 5, clock)
    for number in range(1000):
        limiter.acquire(str(number))
    clock.now += 60
    limiter.acquire("last")

    assert len(limiter) == 1


def test_a_rate_of_zero_sets_no_limit_and_takes_no_memory() -> None:
    limiter = RateLimiter(0, 1, Clock())
    for _ in range(10_000):
        limiter.acquire("a")

    assert len(limiter) == 0


def test_a_token_beyond_its_rate_gets_429_with_the_time_to_wait(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment(rate_per_s=0.001, rate_burst=3)

    answers = [deployment.request("user", "GET", "/users/me") for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    refusal = answers[-1]
    assert refusal.headers["content-type"] == "application/problem+json"
    assert refusal.json()["type"] == "urn:alacarte:problem:too-many-requests"
    assert refusal.headers["retry-after"] in refusal.json()["detail"]
    assert 900 <= int(refusal.headers["retry-after"]) <= 1000
    assert refusal.headers["x-content-type-options"] == "nosniff"
    assert deployment.request("owner", "GET", "/users/me").status_code == 200


def test_health_checks_and_wrong_tokens_do_not_count(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment(rate_per_s=0.001, rate_burst=1)
    wrong = deployment.tokens["user"][:-4] + "0000"  # the same token by its public part

    assert {deployment.request(None, "GET", "/healthz").status_code for _ in range(5)} == {200}
    assert {deployment.request("user", "GET", "/readyz").status_code for _ in range(5)} == {200}
    assert {deployment.request(wrong, "GET", "/users/me").status_code for _ in range(5)} == {401}
    assert deployment.request("user", "GET", "/users/me").status_code == 200
    assert deployment.request("user", "GET", "/users/me").status_code == 429
