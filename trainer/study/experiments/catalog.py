"""The experiments by name, in the order in which a report tells them."""

from trainer.study.experiments.ablation import ABLATION
from trainer.study.experiments.class_incremental import CLASS_INCREMENTAL
from trainer.study.experiments.cost import COST
from trainer.study.experiments.domain_incremental import DOMAIN_INCREMENTAL
from trainer.study.experiments.experiment import Experiment
from trainer.study.experiments.forgetting import FORGETTING
from trainer.study.experiments.head_only import HEAD_ONLY
from trainer.study.experiments.recipes import RECIPES_COMPARED
from trainer.study.experiments.shards import SHARDS
from trainer.study.experiments.tuning import TUNING
from trainer.study.experiments.vote import VOTE

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        SHARDS,
        FORGETTING,
        ABLATION,
        TUNING,
        HEAD_ONLY,
        VOTE,
        CLASS_INCREMENTAL,
        DOMAIN_INCREMENTAL,
        COST,
        RECIPES_COMPARED,
    )
}
