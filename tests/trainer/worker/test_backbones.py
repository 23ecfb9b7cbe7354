"""A worker's backbones are built once, bounded in number, and waiting for one can be stopped."""

from threading import Event
from unittest.mock import Mock, call

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from trainer.worker.backbones import WorkerBackbones


def do_nothing() -> None:
    pass


def test_a_backbone_is_built_once_for_each_name_and_size(backbone: Backbone) -> None:
    build = Mock(return_value=backbone)
    backbones = WorkerBackbones(build)

    for _ in range(2):
        assert backbones.get("vit", None, do_nothing) is backbone
        assert backbones.get("vit", 32, do_nothing) is backbone

    assert build.mock_calls == [call("vit", None), call("vit", 32)]


def test_the_least_recently_used_backbone_is_dropped_first(backbone: Backbone) -> None:
    build = Mock(return_value=backbone)
    backbones = WorkerBackbones(build)

    for name in ("a", "b", "a", "c", "a", "b"):
        backbones.get(name, None, do_nothing)

    assert build.mock_calls == [call(name, None) for name in ("a", "b", "c", "b")]


def test_a_failed_build_is_tried_again(backbone: Backbone) -> None:
    backbones = WorkerBackbones(Mock(side_effect=[WeightsUnavailable("no hub"), backbone]))

    with pytest.raises(WeightsUnavailable, match="no hub"):
        backbones.get("vit", None, do_nothing)
    assert backbones.get("vit", None, do_nothing) is backbone


def test_a_build_continues_when_its_caller_stops_waiting(backbone: Backbone) -> None:
    arrived = Event()
    build = Mock(side_effect=lambda *_: arrived.wait(60) and backbone)
    backbones = WorkerBackbones(build)
    with pytest.raises(InterruptedError):
        backbones.get("vit", None, Mock(side_effect=[None, InterruptedError]))

    arrived.set()

    assert backbones.get("vit", None, do_nothing) is backbone
    build.assert_called_once_with("vit", None)
