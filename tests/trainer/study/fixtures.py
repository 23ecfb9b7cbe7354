"""An example report with the paper's numbers; ours beside them are made up."""

from trainer.study.paper import DATA_SETS
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, StudyReport, Table

COUNTS = (1, 2, 3, 5, 10, 15, 20, 50)
PAPER = {each.name: tuple(each.shards.values()) for each in DATA_SETS}
FLOWERS = tuple(number / 100 for number in (95.4, 95.1, 94.6, 93.2, 90.9, 89.3, 88.0))
SINGLE = tuple(number / 100 for number in (95.4, 91.7, 88.4, 81.9, 68.3, 57.2, 49.9))  # one shard alone
INCREASES = tuple(0.0009 * n + 0.00019 * n**2 for n in range(20))  # of the error, by removed shards


def make_series(name: str, shares: tuple[float, ...], from_paper: bool = False) -> Series:
    return Series(name, tuple(zip(COUNTS, shares, strict=False)), from_paper)


# Our lines beside the paper's, and a wide table of both.
SHARDS = ExperimentResult(
    name="shards",
    title="Shards against the paragon",
    question="The data is split at random into shards, and a prompt is trained on each. How much accuracy is lost?",
    tables=(
        Table(
            "Accuracy on the test pictures",
            (
                Column("shards", "text"),
                Column("pictures in each", "count"),
                Column("composed"),
                Column("against paragon", "points"),
                Column("one shard alone"),
                Column("composed", from_paper=True),
                Column("paper: against paragon", "points", from_paper=True),
            ),
            tuple(
                (str(count), 2652 / count, ours, ours - FLOWERS[0], single, papers, papers - PAPER["Flowers"][0])
                for count, ours, single, papers in zip(COUNTS, FLOWERS, SINGLE, PAPER["Flowers"], strict=False)
            ),
            "The paragon is one prompt on all data with full attention.",
        ),
    ),
    plots=(
        Plot(
            "Accuracy over the number of shards",
            "shards",
            "accuracy",
            "share",
            (
                make_series("Flowers", FLOWERS),
                make_series("single shards, mean", SINGLE),
                make_series("Flowers", PAPER["Flowers"], from_paper=True),
            ),
            has_log_x=True,
        ),
    ),
    claims=(
        ClaimCheck("Up to 10 shards the composed accuracy is within 5 points.", "at worst −4.5 points", holds=True),
        ClaimCheck("Up to 20 shards the same holds.", "−7.4 points with 20 shards", holds=False),
    ),
    notes=("The paper trains ViT-B/16 at 384 px for 80 epochs.", "50 shards were skipped."),
)

# A line with its band, over a linear axis.
FORGETTING = ExperimentResult(
    name="forgetting",
    title="Forgetting sources",
    question="20 shards are removed one by one, without any training. How fast does the error grow?",
    plots=(
        Plot(
            "Increase of the error",
            "removed shards",
            "points of error",
            "points",
            (
                Series(
                    "mean of 10 orders",
                    tuple(enumerate(INCREASES)),
                    low=tuple(mean - 0.004 - 0.0012 * n for n, mean in enumerate(INCREASES)),
                    high=tuple(mean + 0.005 + 0.0016 * n for n, mean in enumerate(INCREASES)),
                ),
            ),
        ),
    ),
    claims=(ClaimCheck("With half of the shards removed, the error grows by 5 points.", "+2.8 points", holds=True),),
)

# More lines than there are colours, and a table of the paper's numbers only.
ALL_DATA_SETS = ExperimentResult(
    name="all",
    title="Accuracy of shard ensembles",
    question="What does the paper report?",
    plots=(
        Plot(
            "All data sets of the paper",
            "shards",
            "accuracy",
            "share",
            tuple(make_series(name, shares, from_paper=True) for name, shares in PAPER.items()),
            has_log_x=True,
        ),
    ),
    tables=(
        Table(
            "The paper's table",
            (Column("data set", "text"), *(Column(f"{count} shards", from_paper=True) for count in COUNTS)),
            tuple((name, *shares) for name, shares in PAPER.items()),
        ),
    ),
)

# Numbers of all other units, and one that was not measured.
COST = ExperimentResult(
    name="cost",
    title="Cost",
    question="How long does a prediction take, and how large is a prompt?",
    tables=(
        Table(
            "Cost by method",
            (
                Column("method", "text"),
                Column("time", "milliseconds"),
                Column("size", "bytes"),
                Column("over a head", "ratio"),
            ),
            (("head", 12.3, 79_200, 1.0), ("prompt", 12.9, 126_000, 1.05), ("fine-tuning", 12.2, 22_100_000, None)),
        ),
    ),
    claims=(ClaimCheck("A prompt is less than a hundredth of the backbone.", "0.57 %", holds=True),),
    notes=("Times are of two cores without a graphics card.",),
)

EXAMPLE_REPORT = StudyReport(
    title="À-la-carte prompt tuning, measured on flowers102-small",
    setup=(
        ("data", "flowers102-small.tar: 2,652 training and 1,020 test pictures of 102 labels"),
        ("backbone", "vit_tiny_patch16_224 at 160 px, 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15"),
        ("recipe", "default: 20 epochs, batch 8, rate 0.1, seed 0"),
    ),
    experiments=(SHARDS, FORGETTING, ALL_DATA_SETS, COST),
)
