"""Ids sort by creation."""

import time
from uuid import RFC_4122, UUID

import pytest

from registry.ids import id_timestamp, new_id
from tests.registry.factories import run_at_once


def test_ids_sort_by_creation() -> None:
    made = [new_id() for _ in range(10_000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert [one.hex for one in made] == sorted(one.hex for one in made)  # as SQLite keeps them


def test_an_id_is_a_uuid_of_version_7_and_carries_its_millisecond() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id()
    after = time.time_ns() // 1_000_000

    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= after + 1
    assert id_timestamp(made) == (made.int >> 80) / 1000
    assert id_timestamp(UUID(int=made.int ^ 0x3 << 76)) is None  # of version 4


def test_ids_of_threads_are_all_different() -> None:
    made = run_at_once(*[lambda: {new_id() for _ in range(2_000)}] * 4)

    assert len(set.union(*made)) == 8_000


def test_a_clock_that_goes_back_does_not_change_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_id()
    monkeypatch.setattr("registry.ids.time.time_ns", lambda: 1_000_000_000)

    assert new_id() > first
