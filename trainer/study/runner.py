"""The laboratory: carries out what experiments want, once each, keeps it, and asks the outcomes about pictures."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.tensors import Prompt
from registry.datasets.sample import Sample
from trainer.baselines.apt import StructuredSet
from trainer.baselines.evaluate import ask
from trainer.baselines.fine_tuning import fine_tune, tune_biases
from trainer.baselines.joint_prompts import JointSet
from trainer.baselines.joint_training import train_joint
from trainer.baselines.member_logits import Opinions, side_by_side
from trainer.optimize import Progress, Report
from trainer.state_cache import StateCache
from trainer.study.eta import Outlook, kind_of
from trainer.study.precompute_states import see_first, views_of
from trainer.study.run_store import Kept
from trainer.study.train_prompts import Training, key_of_pictures
from trainer.threads import cores, use_one_thread
from trainer.train import train_prompt

Watch = Callable[[Training, Progress, Outlook], None]  # called after every epoch, by any thread
Samples = tuple[Sample, ...]
T = TypeVar("T")

ASKED_AT_ONCE = 64  # prompts in a pass of the backbone


class Laboratory:
    """One backbone, the states it sees, and everything that was ever found out with it."""

    def __init__(
        self,
        backbone: Backbone,
        cache: StateCache,
        kept: Kept,
        say: Callable[[str], None],
        watch: Watch = lambda _, __, ___: None,
    ) -> None:
        self.backbone = backbone
        self.say = say
        self._cache = cache
        self._kept = kept
        self._watch = watch

    def missing(self, trainings: Iterable[Training], tests: Samples) -> list[Training]:
        """Those whose outcome is not kept, each once."""
        wanted = {training.key(self.backbone): training for training in trainings}
        missing = [training for key, training in wanted.items() if not self._is_kept(key, training, tests)]
        self.say(f"{len(wanted)} trainings are wanted, {len(wanted) - len(missing)} of them are kept from before")
        return missing

    def train(self, missing: Sequence[Training], tests: Samples) -> None:
        """Carry out these; those of structured attention side by side, a core each, upon states seen before."""
        see_first(self._cache, views_of(missing), self.say)
        outlook = Outlook(missing)
        self._train_side_by_side([each for each in missing if each.way == "structured"], outlook)
        for training in sorted((each for each in missing if each.way != "structured"), key=lambda each: each.effort):
            outlook.begin(kind_of(training))
            self._train_alone(training, tests, self._report(training, outlook))
        outlook.end()

    def opinions(self, trainings: Sequence[Training], tests: Samples) -> Opinions:
        """What the outcome of each training says of the pictures, each by itself; what is not kept is asked now."""
        pictures = key_of_pictures(tests, self.backbone)
        keys = [training.key(self.backbone) for training in trainings]
        self.ask(trainings, tests)
        found = [self._found(self._kept.logits(key, pictures)) for key in keys]
        can_weight = all(training.way == "structured" for training in trainings)
        return Opinions(
            labels=tuple(labels for labels, _ in found),
            logits=tuple(logits for _, logits in found),
            embedding=self._found(self._kept.embedding(pictures)) if can_weight else None,
            prototypes=tuple(self.prompt(each).tensors.prototypes for each in trainings) if can_weight else None,
        )

    def joint_opinions(self, trainings: Sequence[Training], tests: Samples) -> Opinions:
        """What the prompts say of the pictures when all stand in one sequence, and disturb each other."""
        pictures = key_of_pictures(tests, self.backbone)
        together = hashlib.sha256("".join(each.key(self.backbone) for each in trainings).encode()).hexdigest()
        keys = [f"{together}.{place}" for place in range(len(trainings))]
        if any(self._kept.logits(key, pictures) is None for key in keys):
            prompts = [self.prompt(training) for training in trainings]
            said = ask(JointSet(self.backbone, prompts), tests, self.backbone.preprocessing)
            for key, labels, logits in zip(keys, said.labels, said.logits, strict=True):
                self._kept.keep_logits(key, pictures, labels, logits)
        found = [each for key in keys if (each := self._kept.logits(key, pictures)) is not None]
        return side_by_side([Opinions((labels,), (logits,)) for labels, logits in found])

    def opinions_of_prompt(self, prompt: Prompt, tests: Samples) -> Opinions:
        """What a prompt that no training made says of the pictures."""
        return ask(StructuredSet(self.backbone, [prompt]), tests, self.backbone.preprocessing)

    def prompt(self, training: Training) -> Prompt:
        """The prompt that came of a training which has been carried out."""
        return self._found(self._kept.prompt(training.key(self.backbone)))

    def _found(self, kept: T | None) -> T:
        assert kept is not None, "an outcome is wanted that was never made"
        return kept

    def ask(self, trainings: Sequence[Training], tests: Samples) -> None:
        """Keep the opinions of prompts that were never asked; of many at once, where they do not disturb each other."""
        pictures = key_of_pictures(tests, self.backbone)
        is_new = self._kept.embedding(pictures) is None
        new = {
            key: each
            for each in trainings
            if self._kept.logits(key := each.key(self.backbone), pictures) is None or is_new
        }
        structured = [each for each in new.values() if each.way == "structured"]
        for start in range(0, len(structured), ASKED_AT_ONCE):
            some = structured[start : start + ASKED_AT_ONCE]
            together = StructuredSet(self.backbone, [self.prompt(training) for training in some])
            self._keep_opinions(some, pictures, ask(together, tests, self.backbone.preprocessing))
        for training in new.values():
            if training.way == "full":
                alone = JointSet(self.backbone, [self.prompt(training)])
                self._keep_opinions([training], pictures, ask(alone, tests, self.backbone.preprocessing))

    def _is_kept(self, key: str, training: Training, tests: Samples) -> bool:
        if training.has_prompt:
            return self._kept.prompt(key) is not None
        return self._kept.logits(key, key_of_pictures(tests, self.backbone)) is not None

    def _train_side_by_side(self, trainings: Sequence[Training], outlook: Outlook) -> None:
        """The longest first, so that no core is left alone with one at the end; heads, quick as they are, last."""
        for kind in ("structured", "head"):
            mine = sorted((each for each in trainings if kind_of(each) == kind), key=lambda each: -each.effort)
            if not mine:
                continue
            outlook.begin(kind)
            with ThreadPoolExecutor(cores(), "training", initializer=use_one_thread) as threads:
                jobs = [threads.submit(self._train_structured, each, outlook) for each in mine]
                try:
                    for job in jobs:
                        job.result()
                finally:  # whoever is interrupted, or fails, waits for what runs and not for what has not begun
                    threads.shutdown(wait=False, cancel_futures=True)
            outlook.end()

    def _train_structured(self, training: Training, outlook: Outlook) -> None:
        report = self._report(training, outlook)
        prompt = train_prompt(self.backbone, training.samples, training.recipe, self._cache, report)
        self._kept.keep_prompt(training.key(self.backbone), prompt)

    def _train_alone(self, training: Training, tests: Samples, report: Report) -> None:
        """A training that uses all cores by itself."""
        key = training.key(self.backbone)
        if training.way == "full":
            prompt = train_joint(self.backbone, training.samples, training.recipe, "full", report)
            self._kept.keep_prompt(key, prompt)
            return
        tune = fine_tune if training.way == "fine-tuning" else tune_biases
        model = tune(self.backbone, training.samples, training.recipe, report)
        said = ask(model, tests, self.backbone.preprocessing)
        self._keep_opinions([training], key_of_pictures(tests, self.backbone), said)

    def _report(self, training: Training, outlook: Outlook) -> Report:
        def report(progress: Progress) -> None:
            outlook.advance(training)
            self._watch(training, progress, outlook)

        return report

    def _keep_opinions(self, trainings: Sequence[Training], pictures: str, said: Opinions) -> None:
        for training, labels, logits in zip(trainings, said.labels, said.logits, strict=True):
            self._kept.keep_logits(training.key(self.backbone), pictures, labels, logits)
        if said.embedding is not None:
            self._kept.keep_embedding(pictures, said.embedding)
