"""Domain-incremental: every domain has a prompt of its own; what do they know of each other's pictures?"""

from trainer.study import paper
from trainer.study.experiments.experiment import Experiment, in_percent, right
from trainer.study.plan import Plan
from trainer.study.results import Claim, Column, Finding, Table
from trainer.study.runner import Laboratory
from trainer.study.train_prompts import Training


def wants(plan: Plan) -> list[Training]:
    """A prompt for each domain, and one for all."""
    return [plan.training(plan.train), *(plan.training(part.train) for part in plan.parts)]


def find(plan: Plan, laboratory: Laboratory) -> Finding:
    """The accuracy on each domain with every prompt, with its own alone, and with its own left out."""
    trainings = [plan.training(part.train) for part in plan.parts]
    rows: list[tuple[str, float, float, float, float, float, float]] = []
    members = range(len(trainings))
    for own, part in enumerate(plan.parts):
        said = laboratory.opinions(trainings, part.test)
        others = said.only(member for member in members if member != own)
        rows.append(
            (
                part.name,
                right(said, part.test),
                right(said, part.test, weighting="prototypes"),
                right(said.only([own]), part.test),
                right(others, part.test),
                right(others, part.test, weighting="prototypes"),
                right(laboratory.opinions([plan.training(plan.train)], part.test), part.test),
            )
        )
    pictures = [len(part.test) for part in plan.parts]

    def mean(column: int) -> float:
        return sum(float(row[column]) * n for row, n in zip(rows, pictures, strict=True)) / sum(pictures)

    means = tuple(mean(column) for column in range(1, 7))
    return Finding(
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
                (Column("method", "text"), Column("here, all domains"), Column("paper, CORe50", is_papers=True)),
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
            Claim(
                "APT-W is at least as good as APT.",
                f"APT-W {in_percent(means[1])}, APT {in_percent(means[0])}",
                means[1] >= means[0],
            ),
            Claim(
                "With the others' prompts beside it, a domain is answered as well as by its own, to 2 points.",
                f"APT-W {in_percent(means[1])}, own prompt alone {in_percent(means[2])}",
                means[1] >= means[2] - 0.02,
            ),
        ),
    )


def cannot(plan: Plan) -> str | None:
    """Why there are no domains to compare."""
    return None if len(plan.parts) > 1 else "the data has one domain only; give folders DOMAIN/train and DOMAIN/test"


DOMAIN_INCREMENTAL = Experiment("domain-incremental", wants, find, cannot)
