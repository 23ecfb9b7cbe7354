"""Cost: time and room of composed prompts, measured here, against an ensemble of fine-tuned models."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch

from alacarte.prompting.prompt.artifact import prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from trainer.baselines.fine_tuning import TunedModel, fine_tune
from trainer.baselines.joint_training import fit_joint
from trainer.baselines.prompt_sets import StructuredSet
from trainer.prompt_params import TrainablePrompt
from trainer.state_cache import StateCache
from trainer.study import paper
from trainer.study.experiments.experiment import Experiment
from trainer.study.plan import Samples, StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec
from trainer.train import fit, shard_labels
from trainer.views import load_batches, served_batches

ROUNDS = 5
PICTURES = 32  # trained on
BATCH = 8  # asked about at once
SETS = (1, 5, 20, 50)
MARGINAL = 2.0  # times the bare pass: what "only marginally" may mean for 20 prompts


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """One prompt, to ask many of its kind."""
    return [plan.prompt_training(plan.train)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measured times of training and answering, bytes, and parameters."""
    runner.log("measuring times; whatever else runs on this machine shows in them")
    prompt = runner.prompt(plan.prompt_training(plan.train))
    answering = _time_answers(plan, runner, prompt)
    training = _time_training(plan, runner)
    bare = answering["bare"]
    backbone = sum(parameter.numel() for parameter in runner.backbone.model.parameters())
    own = _numbers(prompt)
    head = prompt.tensors.head_weight.numel() + prompt.tensors.head_bias.numel()
    prompt_bytes = len(prompt_to_bytes(prompt))
    model_bytes = 4 * (backbone + head)
    cached = training["prompt, states kept"]
    return ExperimentResult(
        name="cost",
        title="What it costs",
        question="A model for each source could be fine-tuned, and all of them asked. What do composed prompts save?",
        tables=(
            Table(
                f"Answering {BATCH} pictures",
                (
                    Column("sources", "text"),
                    Column("APT", "milliseconds"),
                    Column("APT over the bare pass", "ratio"),
                    Column("fine-tuned ensemble", "milliseconds"),
                    Column("ensemble over APT", "ratio"),
                    Column("APT, bytes kept", "bytes"),
                    Column("ensemble, bytes kept", "bytes"),
                ),
                tuple(
                    (
                        str(count),
                        1000 * answering[f"APT {count}"],
                        answering[f"APT {count}"] / bare,
                        1000 * answering["tuned"] * count,
                        answering["tuned"] * count / answering[f"APT {count}"],
                        4 * backbone + count * prompt_bytes,
                        count * model_bytes,
                    )
                    for count in SETS
                ),
                "The ensemble is one fine-tuned model's measured time "
                "times the number of models, without any cost of having them all in memory.",
            ),
            Table(
                "Training, one picture in one epoch",
                (Column("way", "text"), Column("time", "milliseconds"), Column("over a prompt, states kept", "ratio")),
                tuple((way, 1000 * seconds, seconds / cached) for way, seconds in training.items()),
                f"{PICTURES} pictures, batches of {plan.recipe.batch}; heads, being nearly free, are left out.",
            ),
            Table(
                "Parameters of one prompt",
                (
                    Column("what", "text"),
                    Column("numbers", "count"),
                    Column("over the backbone's", "text"),
                    Column("paper, ViT-B/16", "text", from_paper=True),
                ),
                (
                    ("token and memory", own, _small(own / backbone), f"below {_small(paper.SHARE_OF_PARAMETERS)}"),
                    (f"head over {len(prompt.metadata.labels)} labels", head, _small(head / backbone), None),
                    ("backbone", backbone, None, None),
                ),
                "The share falls with the backbone's width: a token is as wide as that, and the weights grow with its "
                "square. The same prompt on ViT-B/16 is 0.05 %.",
            ),
        ),
        plots=(
            Plot(
                f"Time to answer {BATCH} pictures",
                "sources",
                "over the bare pass",
                "ratio",
                (
                    Series("APT", tuple((count, answering[f"APT {count}"] / bare) for count in SETS)),
                    Series("fine-tuned ensemble", tuple((count, answering["tuned"] * count / bare) for count in SETS)),
                ),
                has_log_x=True,
            ),
        ),
        claims=(
            ClaimCheck(
                f"20 prompts cost less than {MARGINAL:g} times the bare backbone, where 20 models cost 20 times.",
                f"{answering['APT 20'] / bare:.2f} times; an ensemble of 20 models "
                f"{answering['tuned'] * 20 / answering['APT 20']:.1f} times as long as 20 prompts",
                answering["APT 20"] < MARGINAL * bare,
            ),
        ),
    )


def _small(share: float) -> str:
    return f"{100 * share:.2f} %"


def _numbers(prompt: TrainedPrompt) -> int:
    tensors = (prompt.tensors.token, prompt.tensors.memory)
    return sum(tensor.numel() for tensor in tensors if tensor is not None)


def _time_answers(plan: StudyPlan, runner: StudyRunner, prompt: TrainedPrompt) -> dict[str, float]:
    """Seconds for a batch, by who answers."""
    backbone = runner.backbone
    batches = served_batches(plan.test[:BATCH], BATCH)
    images = next(iter(load_batches(batches, backbone.preprocessing))).images
    tuned = TunedModel(backbone, prompt.metadata.labels)
    sets = {count: StructuredSet(backbone, [prompt] * count) for count in SETS}

    @torch.inference_mode()
    def bare() -> None:
        backbone.model.forward_features(images.to(backbone.device, backbone.dtype))

    ways: dict[str, Callable[[], object]] = {"bare": bare}
    ways |= {f"APT {count}": partial(each.member_logits, images) for count, each in sets.items()}
    ways["tuned"] = partial(tuned.member_logits, images)
    return _in_turns(ways)


def _time_training(plan: StudyPlan, runner: StudyRunner) -> dict[str, float]:
    """Seconds for one picture in one epoch, by who learns; pictures as they are served, for all alike."""
    backbone = runner.backbone
    samples = _some(plan.train)
    labels = shard_labels(samples)
    recipe = replace(plan.recipe, epochs=1, augment="none", views=None)
    with StateCache(backbone) as nothing, StateCache(backbone, 2**40, len(samples)) as everything:

        def prompt(cache: StateCache) -> None:
            fit(TrainablePrompt(backbone, recipe, len(labels)), samples, labels, recipe, cache, lambda _: None)

        def joint() -> None:
            learner = TrainablePrompt(backbone, recipe, len(labels))
            fit_joint(learner, backbone, samples, labels, recipe, "full", lambda _: None)

        found = _in_turns(
            {
                "prompt, states kept": partial(prompt, everything),
                "prompt, states computed": partial(prompt, nothing),
                "prompt in one sequence (paragon)": joint,
                "fine-tuning": partial(fine_tune, backbone, samples, replace(recipe, base_rate=None)),
            }
        )
    return {way: seconds / len(samples) for way, seconds in found.items()}


def _some(samples: Samples) -> Samples:
    """A few pictures of at least two classes."""
    first = next(place for place, sample in enumerate(samples) if sample.label != samples[0].label)
    return samples[:PICTURES] if first < PICTURES else (*samples[: PICTURES - 1], samples[first])


def _in_turns(ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each, asked one after the other in rounds; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, call in ways.items():
            start = time.perf_counter()
            call()
            if number:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


COST = Experiment("cost", required_trainings, run)
