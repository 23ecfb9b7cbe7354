"""Backbones are built once, kept within bounds, and never waited for in vain."""

from collections.abc import Callable
from threading import Event

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from trainer.worker.backbones import WorkerBackbones

Key = tuple[str, int | None]


def counting(backbone: Backbone, built: list[Key]) -> WorkerBackbones:
    def build(name: str, size: int | None) -> Backbone:
        built.append((name, size))
        return backbone

    return WorkerBackbones(build)


def go_on() -> None:
    pass


def test_a_backbone_is_built_once_for_each_name_and_size(backbone: Backbone) -> None:
    built: list[Key] = []
    backbones = counting(backbone, built)

    for _ in range(2):
        assert backbones.get("vit", None, go_on) is backbone
        assert backbones.get("vit", 32, go_on) is backbone

    assert built == [("vit", None), ("vit", 32)]


def test_the_one_that_was_not_used_for_longest_leaves_first(backbone: Backbone) -> None:
    built: list[Key] = []
    backbones = counting(backbone, built)

    for name in ("a", "b", "a", "c", "a", "b"):
        backbones.get(name, None, go_on)

    assert [name for name, _ in built] == ["a", "b", "c", "b"]


def test_one_that_could_not_be_built_is_tried_again(backbone: Backbone) -> None:
    failures = [WeightsUnavailable("no hub")]

    def build(name: str, size: int | None) -> Backbone:
        if failures:
            raise failures.pop()
        return backbone

    backbones = WorkerBackbones(build)

    with pytest.raises(WeightsUnavailable, match="no hub"):
        backbones.get("vit", None, go_on)
    assert backbones.get("vit", None, go_on) is backbone


def test_who_stops_waiting_leaves_the_building_to_the_next(backbone: Backbone) -> None:
    arrived = Event()
    built: list[str] = []

    def build(name: str, size: int | None) -> Backbone:
        built.append(name)
        arrived.wait(60)
        return backbone

    backbones = WorkerBackbones(build)
    with pytest.raises(InterruptedError):
        backbones.get("vit", None, raising_at(2))

    arrived.set()

    assert backbones.get("vit", None, go_on) is backbone
    assert built == ["vit"]


def raising_at(call: int) -> Callable[[], None]:
    calls: list[None] = []

    def check() -> None:
        calls.append(None)
        if len(calls) == call:
            raise InterruptedError

    return check
