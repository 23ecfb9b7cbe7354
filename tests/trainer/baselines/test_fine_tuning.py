"""Fine-tuned copies and their ensembles; the backbone does not change."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from tests.prompting.reference import small_backbone, small_images
from tests.trainer.pictures import Samples
from trainer.baselines.evaluate import accuracy, classify, concat_members
from trainer.baselines.fine_tuning import TunedModel, fine_tune, tune_biases
from trainer.errors import LossNotFinite, ShardRefused
from trainer.optimize import EpochProgress
from trainer.recipe import Recipe
from trainer.schedule import learning_rate

Tune = Callable[..., TunedModel]


# The paper's rates are for thousands of steps; a few want higher ones.
QUICK = Recipe(epochs=6, augment="none", base_rate=0.3)


@pytest.mark.parametrize("tune", [fine_tune, tune_biases])
def test_a_tuned_copy_learns(backbone: Backbone, samples: Samples, tune: Tune) -> None:
    progress: list[EpochProgress] = []

    model = tune(backbone, samples, QUICK, progress.append)

    assert len(progress) == QUICK.epochs
    assert progress[-1].loss < progress[0].loss * 0.6
    answer = classify(model, samples, backbone.preprocessing).compose()
    assert accuracy(answer, [sample.label for sample in samples]) > 0.9


@pytest.mark.parametrize("tune", [fine_tune, tune_biases])
def test_tuning_does_not_change_the_backbone(samples: Samples, tune: Tune) -> None:
    backbone = small_backbone()
    before = {name: tensor.clone() for name, tensor in backbone.model.state_dict().items()}

    tune(backbone, samples, QUICK)

    after = backbone.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(parameter.requires_grad for parameter in backbone.model.parameters())


@pytest.mark.parametrize(("tune", "ending"), [(fine_tune, ""), (tune_biases, ".bias")], ids=["all", "biases only"])
def test_tuning_changes_every_weight_that_it_should_and_no_other(
    backbone: Backbone, samples: Samples, tune: Tune, ending: str
) -> None:
    before = backbone.model.state_dict()

    after = tune(backbone, samples, QUICK).model.state_dict()

    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if name.endswith(ending)}


@pytest.mark.parametrize("tune", [fine_tune, tune_biases])
def test_the_same_seed_gives_the_same_bytes_in_any_order_of_samples(
    backbone: Backbone, samples: Samples, tune: Tune
) -> None:
    recipe = Recipe(epochs=2, seed=3, base_rate=0.03)

    one = tune(backbone, samples, recipe)
    other = tune(backbone, samples[::-1], recipe)
    reseeded = tune(backbone, samples, replace(recipe, seed=4))

    assert weights_of(one) == weights_of(other)
    assert weights_of(one) != weights_of(reseeded)


def weights_of(model: TunedModel) -> list[bytes]:
    tensors = [*model.model.state_dict().values(), model.head_weight, model.head_bias]
    return [tensor.numpy().tobytes() for tensor in tensors]


@pytest.mark.parametrize(("tune", "base_rate"), [(fine_tune, 1e-5), (tune_biases, 5e-3)])
def test_the_default_rate_is_the_papers(backbone: Backbone, samples: Samples, tune: Tune, base_rate: float) -> None:
    progress: list[EpochProgress] = []
    recipe = Recipe(epochs=2, augment="none")

    tune(backbone, samples, recipe, progress.append)

    steps = 2  # of 8 and 4 pictures
    expected = replace(recipe, base_rate=base_rate)
    assert [each.rate for each in progress] == [learning_rate(expected, step, steps) for step in (1, 3)]


@pytest.mark.parametrize("kind", ["plain", "registers", "pre-norm", "distilled", "norm after pooling", "dropout"])
def test_a_copy_starts_from_the_backbones_embedding(backbone_of: Callable[[str], Backbone], kind: str) -> None:
    backbone = backbone_of(kind)
    images = small_images(backbone, 2)
    model = TunedModel(backbone, ("a", "b"))
    model.head_weight.copy_(torch.randn(2, backbone.width, generator=torch.Generator().manual_seed(1)))

    logits = model.logits(images)

    rows = backbone.model.blocks(backbone.embed(images))[:, 0]
    torch.testing.assert_close(logits, backbone.final_norm(rows) @ model.head_weight.T)


def test_copies_tuned_on_shards_make_an_ensemble(backbone: Backbone, samples: Samples) -> None:
    shards = [[sample for sample in samples if sample.label != absent] for absent in ("red", "blue")]
    models = [fine_tune(backbone, shard, QUICK) for shard in shards]

    logits = concat_members([classify(model, samples, backbone.preprocessing) for model in models])

    answer = logits.compose("average")
    assert answer.labels == ("blue", "green", "red")
    expected = sum(
        torch.nn.functional.pad(logits.softmax(1), padding)
        for logits, padding in zip(logits.logits, [(0, 1), (1, 0)], strict=True)
    )
    torch.testing.assert_close(answer.scores, expected / 2)


@pytest.mark.parametrize("tune", [fine_tune, tune_biases])
def test_samples_of_one_label_train_a_copy_that_predicts_it(backbone: Backbone, samples: Samples, tune: Tune) -> None:
    model = tune(backbone, samples[::3], QUICK)

    answer = classify(model, samples, backbone.preprocessing).compose()
    assert answer.labels == (samples[0].label,)
    assert torch.equal(answer.scores, torch.ones(len(samples), 1))


def test_no_samples_are_refused(backbone: Backbone) -> None:
    with pytest.raises(ShardRefused, match="no pictures"):
        fine_tune(backbone, [], QUICK)


def test_a_loss_that_is_not_finite_ends_the_training(backbone: Backbone, samples: Samples) -> None:
    with pytest.raises(LossNotFinite, match="use a lower rate"):
        fine_tune(backbone, samples, replace(QUICK, base_rate=1e38))
