"""A worker's backbones are built once, bounded in number, and waiting for one can be stopped."""

from collections.abc import Callable
from threading import Event

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from trainer.worker.backbones import WorkerBackbones

Key = tuple[str, int | None]


def count_builds(backbone: Backbone, built: list[Key]) -> WorkerBackbones:
    def build(name: str, size: int | None) -> Backbone:
        built.append((name, size))
        return backbone

    return WorkerBackbones(build)


def do_nothing() -> None:
    pass


def test_a_backbone_is_built_once_for_each_name_and_size(backbone: Backbone) -> None:
    built: list[Key] = []
    backbones = count_builds(backbone, built)

    for _ in range(2):
        assert backbones.get("vit", None, do_nothing) is backbone
        assert backbones.get("vit", 32, do_nothing) is backbone

    assert built == [("vit", None), ("vit", 32)]


def test_the_least_recently_used_backbone_is_dropped_first(backbone: Backbone) -> None:
    built: list[Key] = []
    backbones = count_builds(backbone, built)

    for name in ("a", "b", "a", "c", "a", "b"):
        backbones.get(name, None, do_nothing)

    assert [name for name, _ in built] == ["a", "b", "c", "b"]


def test_a_failed_build_is_tried_again(backbone: Backbone) -> None:
    failures = [WeightsUnavailable("no hub")]

    def build(name: str, size: int | None) -> Backbone:
        if failures:
            raise failures.pop()
        return backbone

    backbones = WorkerBackbones(build)

    with pytest.raises(WeightsUnavailable, match="no hub"):
        backbones.get("vit", None, do_nothing)
    assert backbones.get("vit", None, do_nothing) is backbone


def test_a_build_continues_when_its_caller_stops_waiting(backbone: Backbone) -> None:
    arrived = Event()
    built: list[str] = []

    def build(name: str, size: int | None) -> Backbone:
        built.append(name)
        arrived.wait(60)
        return backbone

    backbones = WorkerBackbones(build)
    with pytest.raises(InterruptedError):
        backbones.get("vit", None, raise_at_call(2))

    arrived.set()

    assert backbones.get("vit", None, do_nothing) is backbone
    assert built == ["vit"]


def raise_at_call(call: int) -> Callable[[], None]:
    calls: list[None] = []

    def check() -> None:
        calls.append(None)
        if len(calls) == call:
            raise InterruptedError

    return check
