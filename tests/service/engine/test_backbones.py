"""Backbones are built when they are first asked for, once, and with the weights that the task needs."""

import asyncio
import dataclasses

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from registry.access.usable_set import TaskFacts
from service.engine.backbones import RETRY_SECONDS, Backbones, build
from service.engine.errors import BackboneUnavailable, IdentityMismatch
from service.engine.settings import EngineSettings
from tests.service.engine.fixtures import Stage

pytestmark = pytest.mark.anyio


class Builder:
    """Builds the same backbone each time, and counts; held while its gate is closed."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.built: list[str] = []
        self.errors: list[Exception] = []

    def __call__(self, name: str, *_: object) -> Backbone:
        self.stage.store.pass_through()
        self.built.append(name)
        if self.errors:
            raise self.errors.pop()
        return self.stage.backbone


def named(stage: Stage, name: str) -> TaskFacts:
    return dataclasses.replace(stage.task, backbone=name)


async def test_a_backbone_is_built_once_for_all_who_wait(stage: Stage) -> None:
    builder = Builder(stage)
    backbones = Backbones(EngineSettings(), builder)
    stage.store.close()
    waiting = [asyncio.create_task(backbones.get(stage.task)) for _ in range(3)]
    await stage.store.reached()
    waiting[0].cancel()
    stage.store.open()

    assert await waiting[1] is await waiting[2] is stage.backbone
    assert await backbones.get(stage.task) is stage.backbone
    assert len(builder.built) == 1


async def test_the_backbone_that_was_asked_for_longest_ago_leaves(stage: Stage) -> None:
    builder = Builder(stage)
    backbones = Backbones(EngineSettings(backbones=2), builder)

    for name in ("a", "b", "a", "c", "a", "b"):
        await backbones.get(named(stage, name))

    assert builder.built == ["a", "b", "c", "b"]
    assert len(backbones.kept) == 2


async def test_other_weights_than_the_tasks_are_refused(stage: Stage) -> None:
    task = dataclasses.replace(stage.task, identity="0" * 64)

    with pytest.raises(IdentityMismatch, match="give it the same weights") as caught:
        await Backbones(EngineSettings(), Builder(stage)).get(task)

    assert caught.value.status == 503


async def test_a_task_without_an_identity_takes_the_weights_that_there_are(stage: Stage) -> None:
    task = dataclasses.replace(stage.task, identity=None)

    assert await Backbones(EngineSettings(), Builder(stage)).get(task) is stage.backbone


async def test_a_build_that_failed_is_not_begun_again_for_a_moment(stage: Stage) -> None:
    builder = Builder(stage)
    builder.errors = [WeightsUnavailable("no hub answers")]
    backbones = Backbones(EngineSettings(), builder)

    for _ in range(3):
        with pytest.raises(BackboneUnavailable, match="no hub answers") as caught:
            await backbones.get(stage.task)
        assert 1 <= caught.value.retry_after <= RETRY_SECONDS

    assert len(builder.built) == 1
    assert await backbones.get(named(stage, "another")) is stage.backbone


async def test_a_build_that_failed_is_tried_again_after_a_moment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.engine.backbones.RETRY_SECONDS", 0.0)
    builder = Builder(stage)
    builder.errors = [WeightsUnavailable("no hub answers")]
    backbones = Backbones(EngineSettings(), builder)

    with pytest.raises(BackboneUnavailable, match="no hub answers") as caught:
        await backbones.get(stage.task)

    assert caught.value.status == 503
    assert await backbones.get(stage.task) is stage.backbone


def test_the_settings_say_which_weights_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    backbone = build("vit_tiny_patch16_224", 32, EngineSettings(weights="random", precision="bfloat16"))

    assert (backbone.architecture, backbone.preprocessing.size) == ("vit_tiny_patch16_224", 32)
    assert str(backbone.dtype) == "torch.bfloat16"
    assert capsys.readouterr().err == ""
