"""The runner of a study: performs each required training once, caches its outcome, and evaluates it on pictures."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.tensors import TrainedPrompt
from alacarte.prompting.threads import available_cores, use_one_thread
from trainer.baselines.evaluate import EnsembleLogits, classify, concat_members
from trainer.baselines.fine_tuning import fine_tune, tune_biases
from trainer.baselines.joint_training import train_joint
from trainer.baselines.prompt_sets import JointSet, StructuredSet
from trainer.optimize import EpochProgress, ReportProgress
from trainer.state_cache import StateCache
from trainer.study.eta import EtaEstimator
from trainer.study.result_cache import ResultCache
from trainer.study.train_test_split import Samples
from trainer.study.training_spec import TrainingSpec, samples_key
from trainer.train import train_prompt
from trainer.views import View

ProgressCallback = Callable[
    [TrainingSpec, EpochProgress, EtaEstimator], None
]  # called after every epoch, by any thread
T = TypeVar("T")

PROMPTS_PER_PASS = 64
VIEWS_PER_BATCH = 64
LOG_INTERVAL_SECONDS = 15.0


class StudyRunner:
    """Trains and evaluates with one backbone, its cached states, and the results cached by earlier runs."""

    def __init__(
        self,
        backbone: Backbone,
        state_cache: StateCache,
        result_cache: ResultCache,
        log: Callable[[str], None],
        on_progress: ProgressCallback = lambda _, __, ___: None,
    ) -> None:
        self.backbone = backbone
        self.log = log
        self._state_cache = state_cache
        self._result_cache = result_cache
        self._on_progress = on_progress

    def filter_missing(self, trainings: Iterable[TrainingSpec], tests: Samples) -> list[TrainingSpec]:
        """Return the trainings whose outcome is not cached, without duplicates."""
        required = {training.key(self.backbone): training for training in trainings}
        missing = [training for key, training in required.items() if not self._is_cached(key, training, tests)]
        self.log(f"{len(required)} trainings required, {len(required) - len(missing)} of them cached")
        return missing

    def train(self, trainings: Sequence[TrainingSpec], tests: Samples) -> None:
        """Perform the trainings; those with structured attention in parallel, on precomputed backbone states."""
        precompute_states(self._state_cache, cacheable_views(trainings), self.log)
        eta = EtaEstimator(trainings)
        self._train_in_parallel([training for training in trainings if training.method == "structured"], eta)
        others = [training for training in trainings if training.method != "structured"]
        for training in sorted(others, key=lambda training: training.cost):
            eta.begin(training.cost_class)
            self._train_on_all_cores(training, tests, self._progress_reporter(training, eta))
        eta.end()

    def member_logits(self, trainings: Sequence[TrainingSpec], tests: Samples) -> EnsembleLogits:
        """Return each training's logits for the pictures, computing those that are not cached."""
        pictures = samples_key(tests, self.backbone)
        keys = [training.key(self.backbone) for training in trainings]
        self.compute_logits(trainings, tests)
        cached = [_require(self._result_cache.logits(key, pictures)) for key in keys]
        can_weight = all(training.method == "structured" for training in trainings)
        return EnsembleLogits(
            labels=tuple(labels for labels, _ in cached),
            logits=tuple(logits for _, logits in cached),
            embedding=_require(self._result_cache.embedding(pictures)) if can_weight else None,
            prototypes=tuple(self.prompt(each).tensors.prototypes for each in trainings) if can_weight else None,
        )

    def joint_member_logits(self, trainings: Sequence[TrainingSpec], tests: Samples) -> EnsembleLogits:
        """Return the logits of prompts that share one sequence, where they attend each other."""
        pictures = samples_key(tests, self.backbone)
        joint_key = hashlib.sha256("".join(each.key(self.backbone) for each in trainings).encode()).hexdigest()
        keys = [f"{joint_key}.{index}" for index in range(len(trainings))]
        if any(self._result_cache.logits(key, pictures) is None for key in keys):
            prompts = [self.prompt(training) for training in trainings]
            joint = classify(JointSet(self.backbone, prompts), tests, self.backbone.preprocessing)
            for key, labels, logits in zip(keys, joint.labels, joint.logits, strict=True):
                self._result_cache.put_logits(key, pictures, labels, logits)
        cached = [_require(self._result_cache.logits(key, pictures)) for key in keys]
        return concat_members([EnsembleLogits((labels,), (logits,)) for labels, logits in cached])

    def prompt_logits(self, prompt: TrainedPrompt, tests: Samples) -> EnsembleLogits:
        """Return the logits of a prompt that is not the outcome of a training; not cached."""
        return classify(StructuredSet(self.backbone, [prompt]), tests, self.backbone.preprocessing)

    def prompt(self, training: TrainingSpec) -> TrainedPrompt:
        """Return the prompt of a training that has been performed."""
        return _require(self._result_cache.prompt(training.key(self.backbone)))

    def compute_logits(self, trainings: Sequence[TrainingSpec], tests: Samples) -> None:
        """Cache the missing logits of prompts; prompts that do not influence each other share a pass."""
        pictures = samples_key(tests, self.backbone)
        needs_embedding = self._result_cache.embedding(pictures) is None
        missing = {
            key: training
            for training in trainings
            if self._result_cache.logits(key := training.key(self.backbone), pictures) is None or needs_embedding
        }
        structured = [training for training in missing.values() if training.method == "structured"]
        for start in range(0, len(structured), PROMPTS_PER_PASS):
            chunk = structured[start : start + PROMPTS_PER_PASS]
            prompts = StructuredSet(self.backbone, [self.prompt(training) for training in chunk])
            self._put_logits(chunk, pictures, classify(prompts, tests, self.backbone.preprocessing))
        for training in missing.values():
            if training.method == "full":
                prompt = JointSet(self.backbone, [self.prompt(training)])
                self._put_logits([training], pictures, classify(prompt, tests, self.backbone.preprocessing))

    def _is_cached(self, key: str, training: TrainingSpec, tests: Samples) -> bool:
        if training.has_prompt:
            return self._result_cache.prompt(key) is not None
        return self._result_cache.logits(key, samples_key(tests, self.backbone)) is not None

    def _train_in_parallel(self, trainings: Sequence[TrainingSpec], eta: EtaEstimator) -> None:
        """Train one prompt per core; the longest first, so that no core idles at the end, and the quick heads last."""
        for cost_class in ("structured", "head"):
            chosen = [training for training in trainings if training.cost_class == cost_class]
            if not chosen:
                continue
            eta.begin(cost_class)
            with ThreadPoolExecutor(available_cores(), "training", initializer=use_one_thread) as threads:
                chosen.sort(key=lambda training: -training.cost)
                futures = [threads.submit(self._train_structured, training, eta) for training in chosen]
                try:
                    for future in futures:
                        future.result()
                finally:  # on an error or interrupt, wait for running trainings only
                    threads.shutdown(wait=False, cancel_futures=True)
            eta.end()

    def _train_structured(self, training: TrainingSpec, eta: EtaEstimator) -> None:
        report = self._progress_reporter(training, eta)
        prompt = train_prompt(self.backbone, training.samples, training.recipe, self._state_cache, report)
        self._result_cache.put_prompt(training.key(self.backbone), prompt)

    def _train_on_all_cores(self, training: TrainingSpec, tests: Samples, report: ReportProgress) -> None:
        if training.method == "full":
            prompt = train_joint(self.backbone, training.samples, training.recipe, "full", report)
            self._result_cache.put_prompt(training.key(self.backbone), prompt)
            return
        tune = fine_tune if training.method == "fine-tuning" else tune_biases
        model = tune(self.backbone, training.samples, training.recipe, report)
        logits = classify(model, tests, self.backbone.preprocessing)
        self._put_logits([training], samples_key(tests, self.backbone), logits)

    def _progress_reporter(self, training: TrainingSpec, eta: EtaEstimator) -> ReportProgress:
        def report(progress: EpochProgress) -> None:
            eta.advance(training)
            self._on_progress(training, progress, eta)

        return report

    def _put_logits(self, trainings: Sequence[TrainingSpec], pictures: str, members: EnsembleLogits) -> None:
        for training, labels, logits in zip(trainings, members.labels, members.logits, strict=True):
            self._result_cache.put_logits(training.key(self.backbone), pictures, labels, logits)
        if members.embedding is not None:
            self._result_cache.put_embedding(pictures, members.embedding)


def cacheable_views(trainings: Iterable[TrainingSpec]) -> list[View]:
    """Return every view that trainings with structured attention use more than once, without duplicates."""
    views: dict[object, View] = {}
    for training in trainings:
        recipe = training.recipe
        is_reused = recipe.augment == "none" or recipe.views is not None
        if training.method != "structured" or not is_reused:
            continue
        numbers = {recipe.view_at(epoch) for epoch in range(recipe.view_count)} | {None}  # None: for the prototypes
        for sample in training.samples:
            for number in sorted(numbers, key=lambda number: -1 if number is None else number):
                view = View(sample, number, recipe.seed)
                views.setdefault(view.key, view)
    return list(views.values())


def precompute_states(cache: StateCache, views: Sequence[View], log: Callable[[str], None]) -> None:
    """Compute the backbone's states of these views on all cores before training; stop when the cache is full."""
    started = logged = time.monotonic()
    batches = [views[start : start + VIEWS_PER_BATCH] for start in range(0, len(views), VIEWS_PER_BATCH)]
    with closing(cache.iter_states(batches)) as walk:
        for number, _ in enumerate(walk, 1):
            if cache.is_full and number < len(batches):
                log(f"the cache holds {cache.kept_views:,} of {len(views):,} views; others are recomputed (--cache-gb)")
                return
            now = time.monotonic()
            if now - logged >= LOG_INTERVAL_SECONDS:
                logged = now
                left = (now - started) / number * (len(batches) - number)
                done = min(number * VIEWS_PER_BATCH, len(views))
                log(f"{done:,} of {len(views):,} views computed, {left:.0f} s left")


def _require(cached: T | None) -> T:
    assert cached is not None, "the outcome of a training is used before it was trained"
    return cached
