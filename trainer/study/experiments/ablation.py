"""Ablation: two shards, composed by structured attention, by concatenation, and by averaging parameters."""

from trainer.baselines.parameter_average import average_prompts
from trainer.study.experiments.experiment import Experiment, in_percent, right
from trainer.study.paper import counterpart
from trainer.study.plan import Plan
from trainer.study.results import Claim, Column, Finding, Table
from trainer.study.runner import Laboratory
from trainer.study.train_prompts import Training

SHARDS = 2


def wants(plan: Plan) -> list[Training]:
    """The paragon; and a prompt for each shard, with structured attention and, of two shards, without."""
    shards = [shard for count in _counts(plan) for shard in plan.shards(count)]
    structured = [plan.training(plan.train), *(plan.training(shard) for shard in shards)]
    return [*filter(None, [plan.paragon]), *structured, *_naive(plan)]


def _counts(plan: Plan) -> tuple[int, ...]:
    return tuple(sorted({SHARDS, *plan.possible_counts()}))


def _averaged(plan: Plan, laboratory: Laboratory, count: int) -> float:
    """The accuracy of the one prompt halfway between those of so many shards."""
    average = average_prompts([laboratory.prompt(plan.training(shard)) for shard in plan.shards(count)])
    return right(laboratory.opinions_of_prompt(average, plan.test), plan.test)


def _composed(plan: Plan, laboratory: Laboratory, count: int) -> float:
    return right(laboratory.opinions([plan.training(shard) for shard in plan.shards(count)], plan.test), plan.test)


def _naive(plan: Plan) -> list[Training]:
    """A prompt for each shard that learns as it is concatenated: every token attending every other."""
    return [] if plan.joint is None else [Training("full", shard, plan.joint) for shard in plan.shards(SHARDS)]


def find(plan: Plan, laboratory: Laboratory) -> Finding:
    """The accuracy of each way to make one answer of two prompts."""
    tests, paper = plan.test, counterpart(plan.name)
    shards = plan.shards(SHARDS)
    structured = [plan.training(shard) for shard in shards]
    averaged = {count: _averaged(plan, laboratory, count) for count in _counts(plan)}
    composed = {count: _composed(plan, laboratory, count) for count in _counts(plan)}
    found: dict[str, float] = {}
    if naive := _naive(plan):
        found["concatenate"] = right(laboratory.joint_opinions(naive, tests), tests)
    found |= {
        "concatenate, prompts of structured attention": right(laboratory.joint_opinions(structured, tests), tests),
        "average of parameters": averaged[SHARDS],
        "APT": composed[SHARDS],
        "one prompt on everything": right(laboratory.opinions([plan.training(plan.train)], tests), tests),
    }
    if plan.paragon is not None:
        found["paragon"] = right(laboratory.opinions([plan.paragon], tests), tests)
    theirs = {}
    if paper is not None:
        theirs = {
            "concatenate": paper.concatenate,
            "average of parameters": paper.average,
            "APT": paper.shards[SHARDS],
            "paragon": paper.shards[1],
        }
    naive_best = max(share for way, share in found.items() if way.startswith(("concatenate", "average")))
    return Finding(
        name="ablation",
        title="Naive composition against APT",
        question="Two prompts, each trained on half of the data: what is the best way to make one answer of them?",
        tables=(
            Table(
                "Accuracy on the test pictures, two shards",
                (
                    Column("way", "text"),
                    Column("here"),
                    Column("paper" if paper is None else f"paper, {paper.name}", is_papers=True),
                ),
                tuple((way, share, theirs.get(way)) for way, share in found.items()),
                "Concatenate: prompts in one sequence, where all attend all. The first were trained so, as the paper's "
                "naive method is described; the second are APT's own prompts.",
            ),
            Table(
                "Averaging parameters, with more shards",
                (
                    Column("shards", "text"),
                    Column("average of parameters"),
                    Column("APT"),
                    Column("APT over averaging", "points"),
                ),
                tuple((str(n), averaged[n], composed[n], composed[n] - averaged[n]) for n in averaged),
                "The paper averages two prompts only.",
            ),
        ),
        claims=(
            Claim(
                "APT is above concatenation and above averaging.",
                f"APT {in_percent(found['APT'])}, the best naive way {in_percent(naive_best)}",
                found["APT"] > naive_best,
            ),
        ),
    )


ABLATION = Experiment("ablation", wants, find)
