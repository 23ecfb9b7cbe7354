"""Domain-incremental: every domain has a prompt of its own; what do they know of each other's pictures?"""

from trainer.study import paper
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each domain, and one for all."""
    return [plan.prompt_training(plan.train), *(plan.prompt_training(part.train) for part in plan.domains)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """The accuracy on each domain with every prompt, with its own alone, and with its own left out."""
    trainings = [plan.prompt_training(part.train) for part in plan.domains]
    rows: list[tuple[str, float, float, float, float, float, float]] = []
    members = range(len(trainings))
    for own, part in enumerate(plan.domains):
        said = runner.member_logits(trainings, part.test)
        others = said.select_members(member for member in members if member != own)
        rows.append(
            (
                part.name,
                composed_accuracy(said, part.test),
                composed_accuracy(said, part.test, weighting="prototypes"),
                composed_accuracy(said.select_members([own]), part.test),
                composed_accuracy(others, part.test),
                composed_accuracy(others, part.test, weighting="prototypes"),
                composed_accuracy(runner.member_logits([plan.prompt_training(plan.train)], part.test), part.test),
            )
        )
    pictures = [len(part.test) for part in plan.domains]

    def mean(column: int) -> float:
        return sum(float(row[column]) * n for row, n in zip(rows, pictures, strict=True)) / sum(pictures)

    means = tuple(mean(column) for column in range(1, 7))
    return ExperimentResult(
        name="domain-incremental",
        title="Domain-incremental learning",
        question="Every domain is learnt by a prompt that never sees another. How good are they together on each "
        "domain's test pictures, and what is left when a domain's own prompt is taken away?",
        tables=(
            Table(
                "Accuracy on each domain's test pictures",
                (
                    Column("domain", "text"),
                    Column("APT"),
                    Column("APT-W"),
                    Column("own prompt alone"),
                    Column("own left out: APT"),
                    Column("own left out: APT-W"),
                    Column("one prompt on all domains"),
                ),
                (*rows, ("all", *means)),
            ),
            Table(
                "Beside the paper's",
                (Column("method", "text"), Column("here, all domains"), Column("paper, CORe50", from_paper=True)),
                (
                    ("APT", means[0], paper.DOMAIN_INCREMENTAL["APT"]),
                    ("APT-W", means[1], paper.DOMAIN_INCREMENTAL["APT-W"]),
                    *((name, None, share) for name, share in paper.DOMAIN_INCREMENTAL.items() if "APT" not in name),
                ),
                "CORe50 has 8 domains to learn from and is asked about 3 others; our closest to that is a domain with "
                "its own prompt left out.",
            ),
        ),
        claims=(
            ClaimCheck(
                "APT-W is at least as good as APT.",
                f"APT-W {format_percent(means[1])}, APT {format_percent(means[0])}",
                means[1] >= means[0],
            ),
            ClaimCheck(
                "With the others' prompts beside it, a domain is answered as well as by its own, to 2 points.",
                f"APT-W {format_percent(means[1])}, own prompt alone {format_percent(means[2])}",
                means[1] >= means[2] - 0.02,
            ),
        ),
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why there are no domains to compare."""
    return None if len(plan.domains) > 1 else "the data has one domain only; give folders DOMAIN/train and DOMAIN/test"


DOMAIN_INCREMENTAL = Experiment("domain-incremental", required_trainings, run, unsupported_reason)
