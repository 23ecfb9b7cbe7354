"""Domain-incremental learning: every domain has its own prompt, and all are composed."""

from trainer.study import paper
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent, trained_accuracy
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

TOLERANCE = 0.02  # of the composed prompts against a domain's own


def _domain_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    return [plan.prompt_training(domain.train) for domain in plan.domains]


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each domain, and one for all."""
    return [plan.prompt_training(plan.train), *_domain_trainings(plan)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure the accuracy on each domain with all prompts, with its own alone, and without its own."""
    trainings = _domain_trainings(plan)
    rows: list[tuple[str, float, float, float, float, float, float]] = []
    for own, domain in enumerate(plan.domains):
        tests = domain.test
        members = runner.member_logits(trainings, tests)
        others = members.select_members(member for member in range(len(trainings)) if member != own)
        rows.append(
            (
                domain.name,
                composed_accuracy(members, tests),
                composed_accuracy(members, tests, weighting="prototypes"),
                composed_accuracy(members.select_members([own]), tests),
                composed_accuracy(others, tests),
                composed_accuracy(others, tests, weighting="prototypes"),
                trained_accuracy(runner, [plan.prompt_training(plan.train)], tests),
            )
        )
    sizes = [len(domain.test) for domain in plan.domains]

    def mean(column: int) -> float:
        return sum(float(row[column]) * size for row, size in zip(rows, sizes, strict=True)) / sum(sizes)

    means = tuple(mean(column) for column in range(1, 7))
    return ExperimentResult(
        name="domain-incremental",
        title="Domain-incremental learning",
        question="Every domain has a prompt that is trained on no other domain. How accurate are they together on each "
        "domain's test pictures, and what is left without the domain's own prompt?",
        tables=(
            Table(
                "Accuracy on each domain's test pictures",
                (
                    Column("domain", "text"),
                    Column("APT"),
                    Column("APT-W"),
                    Column("own prompt alone"),
                    Column("without own prompt: APT"),
                    Column("without own prompt: APT-W"),
                    Column("one prompt on all domains"),
                ),
                (*rows, ("all", *means)),
            ),
            Table(
                "Comparison with the paper",
                (Column("method", "text"), Column("here, all domains"), Column("paper, CORe50", from_paper=True)),
                (
                    ("APT", means[0], paper.DOMAIN_INCREMENTAL["APT"]),
                    ("APT-W", means[1], paper.DOMAIN_INCREMENTAL["APT-W"]),
                    *((name, None, share) for name, share in paper.DOMAIN_INCREMENTAL.items() if "APT" not in name),
                ),
                "CORe50 has 8 training domains and 3 other test domains; closest to that here is a domain without "
                "its own prompt.",
            ),
        ),
        claims=(
            ClaimCheck(
                "APT-W is at least as good as APT.",
                f"APT-W {format_percent(means[1])}, APT {format_percent(means[0])}",
                means[1] >= means[0],
            ),
            ClaimCheck(
                f"Composed with the others, a domain's prompt is as accurate as alone, within {100 * TOLERANCE:.0f} "
                "points.",
                f"APT-W {format_percent(means[1])}, own prompt alone {format_percent(means[2])}",
                means[1] >= means[2] - TOLERANCE,
            ),
        ),
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why there are no domains to compare."""
    if len(plan.domains) > 1:
        return None
    return "the data has one domain only; give folders DOMAIN/train and DOMAIN/test"


DOMAIN_INCREMENTAL = Experiment("domain-incremental", required_trainings, run, unsupported_reason)
