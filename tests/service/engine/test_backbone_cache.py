"""Backbones are built at the first request, once, with the weights that the task needs."""

import asyncio
from dataclasses import replace

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from service.engine.backbone_cache import RETRY_SECONDS, BackboneCache, build
from service.engine.errors import BackboneUnavailable, BackboneWeightsMismatch
from service.engine.settings import EngineSettings
from tests.service.engine.fixtures import EngineHarness

pytestmark = pytest.mark.anyio


class Builder:
    """Returns the same backbone each time, and counts."""

    def __init__(self, harness: EngineHarness) -> None:
        self.harness = harness
        self.built: list[str] = []
        self.errors: list[Exception] = []

    def __call__(self, name: str, *_: object) -> Backbone:
        self.harness.read_pause.wait_if_paused()
        self.built.append(name)
        if self.errors:
            raise self.errors.pop()
        return self.harness.backbone


async def test_a_backbone_is_built_once_for_all_waiters(harness: EngineHarness) -> None:
    builder = Builder(harness)
    backbones = BackboneCache(EngineSettings(), builder)
    harness.read_pause.pause()
    waiting = [asyncio.create_task(backbones.get(harness.task)) for _ in range(3)]
    await harness.read_pause.wait_until_reached()
    waiting[0].cancel()
    harness.read_pause.resume()

    assert await waiting[1] is await waiting[2] is harness.backbone
    assert await backbones.get(harness.task) is harness.backbone
    assert len(builder.built) == 1


async def test_the_least_recently_used_backbone_leaves(harness: EngineHarness) -> None:
    builder = Builder(harness)
    backbones = BackboneCache(EngineSettings(max_backbones=2), builder)

    for name in ("a", "b", "a", "c", "a", "b"):
        await backbones.get(replace(harness.task, backbone=name))

    assert builder.built == ["a", "b", "c", "b"]
    assert len(backbones.in_memory) == 2


async def test_weights_other_than_the_tasks_are_refused_and_a_task_without_an_identity_takes_any(
    harness: EngineHarness,
) -> None:
    backbones = BackboneCache(EngineSettings(), Builder(harness))

    with pytest.raises(BackboneWeightsMismatch, match="set ALACARTE_WEIGHTS to the same weights") as caught:
        await backbones.get(replace(harness.task, identity="0" * 64))

    assert caught.value.status == 503
    assert await backbones.get(replace(harness.task, identity=None)) is harness.backbone


async def test_a_failed_build_is_retried_after_a_pause_only(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder(harness)
    builder.errors = [WeightsUnavailable("the hub is down")]
    backbones = BackboneCache(EngineSettings(), builder)

    for _ in range(3):
        with pytest.raises(BackboneUnavailable, match="the hub is down") as caught:
            await backbones.get(harness.task)
        assert caught.value.status == 503
        assert 1 <= caught.value.retry_after <= RETRY_SECONDS

    assert len(builder.built) == 1
    assert await backbones.get(replace(harness.task, backbone="another")) is harness.backbone
    monkeypatch.setattr("service.engine.backbone_cache.RETRY_SECONDS", 0.0)
    assert await backbones.get(harness.task) is harness.backbone


def test_the_settings_choose_weights_and_precision(capsys: pytest.CaptureFixture[str]) -> None:
    backbone = build("vit_tiny_patch16_224", 32, EngineSettings(weights="random", dtype="bfloat16"))

    assert (backbone.architecture, backbone.preprocessing.size) == ("vit_tiny_patch16_224", 32)
    assert str(backbone.dtype) == "torch.bfloat16"
    assert capsys.readouterr().err == ""
