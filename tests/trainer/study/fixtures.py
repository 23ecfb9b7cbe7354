"""An example report with the paper's numbers; ours beside them are made up."""

from trainer.study.paper import DATA_SETS
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, StudyReport, Table

COUNTS = (1, 2, 3, 5, 10, 15, 20, 50)
PAPER = {each.name: tuple(100 * share for share in each.shards.values()) for each in DATA_SETS}  # in per cent
OURS = {"Flowers": (95.4, 95.1, 94.6, 93.2, 90.9, 89.3, 88.0), "Aircrafts": (58.2, 50.3, 48.8, 45.1, 40.2, 37.7, 36.0)}
SINGLE = (95.4, 91.7, 88.4, 81.9, 68.3, 57.2, 49.9)  # one shard of Flowers alone


def make_series(name: str, numbers: tuple[float, ...], from_paper: bool = False) -> Series:
    """A series over the numbers of shards."""
    points = tuple((count, number / 100) for count, number in zip(COUNTS, numbers, strict=False))
    return Series(name, points, from_paper)


def shards_result() -> ExperimentResult:
    """Our lines beside the paper's, and a wide table of both."""
    flowers, papers = OURS["Flowers"], PAPER["Flowers"]
    return ExperimentResult(
        name="shards",
        title="Shards against the paragon",
        question="The data is split at random into shards, and a prompt is trained on each by itself. How much is "
        "lost against one prompt on everything, and how much better is the composed answer than that of one shard?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("shards", "text"),
                    Column("pictures in each", "count"),
                    Column("composed"),
                    Column("against paragon", "points"),
                    Column("one shard alone"),
                    Column("gain of composing", "points"),
                    Column("composed", from_paper=True),
                    Column("paper: against paragon", "points", from_paper=True),
                ),
                tuple(
                    (
                        str(count),
                        2652 / count,
                        flowers[n] / 100,
                        (flowers[n] - flowers[0]) / 100,
                        SINGLE[n] / 100,
                        (flowers[n] - SINGLE[n]) / 100,
                        papers[n] / 100 if n else None,
                        (papers[n] - papers[0]) / 100 if n else None,
                    )
                    for n, count in enumerate(COUNTS[: len(flowers)])
                ),
                "The paragon is one prompt on everything, every token attending every other.",
            ),
        ),
        plots=(
            Plot(
                "Accuracy over the number of shards",
                "shards",
                "accuracy",
                "share",
                (
                    make_series("composed", flowers),
                    make_series("single shards, mean", SINGLE),
                    make_series("paper, Flowers", papers, True),
                ),
                has_log_x=True,
            ),
            Plot(
                "Composed accuracy here and in the paper",
                "shards",
                "accuracy",
                "share",
                (
                    *(make_series(name, numbers) for name, numbers in OURS.items()),
                    *(make_series(name, PAPER[name], True) for name in OURS),
                ),
                has_log_x=True,
            ),
        ),
        claims=(
            ClaimCheck(
                "Up to 10 shards the composed accuracy is within 5 points of the paragon.",
                "at worst −4.5 points (90.9 % with 10 shards, 95.4 % on everything)",
                holds=True,
            ),
            ClaimCheck("Up to 20 shards the same holds.", "−7.4 points with 20 shards", holds=False),
        ),
        notes=(
            "The paper trains ViT-B/16 at 384 px for 80 epochs; this run is of ViT-Ti/16 at 160 px and 20 epochs.",
            "50 shards were left out: half of the labels would be missing from each.",
        ),
    )


def forgetting_result() -> ExperimentResult:
    """A mean with its band, along a plain axis."""
    means = tuple(0.0009 * n + 0.00019 * n**2 for n in range(20))
    return ExperimentResult(
        name="forgetting",
        title="Forgetting sources",
        question="Of 20 shards one after the other is removed, without any training. How fast does the error grow?",
        plots=(
            Plot(
                "Increase of the error",
                "removed shards",
                "points of error",
                "points",
                (
                    Series(
                        "mean of 10 orders",
                        tuple((n, mean) for n, mean in enumerate(means)),
                        low=tuple(mean - 0.004 - 0.0012 * n for n, mean in enumerate(means)),
                        high=tuple(mean + 0.005 + 0.0016 * n for n, mean in enumerate(means)),
                    ),
                ),
            ),
        ),
        tables=(
            Table(
                "Increase of the error",
                (Column("removed", "text"), Column("left", "count"), Column("mean", "points")),
                tuple((str(n), 20 - n, means[n]) for n in (0, 5, 10, 15, 19)),
                "The paper shows this as a figure without numbers.",
            ),
        ),
        claims=(
            ClaimCheck(
                "With half of the sources forgotten the error has grown by at most 5 points.", "+2.8 points", True
            ),
        ),
    )


def data_sets_result() -> ExperimentResult:
    """More lines than there are colours, and a table of the paper's numbers only."""
    return ExperimentResult(
        name="all",
        title="Accuracy of shard ensembles",
        question="What does the paper report, and what was measured of it here?",
        plots=(
            Plot(
                "All data sets of the paper",
                "shards",
                "accuracy",
                "share",
                tuple(make_series(name, numbers, from_paper=True) for name, numbers in PAPER.items()),
                has_log_x=True,
            ),
        ),
        tables=(
            Table(
                "The paper's own table",
                (Column("data set", "text"), *(Column(f"{count} shards", from_paper=True) for count in COUNTS)),
                tuple((name, *(number / 100 for number in numbers)) for name, numbers in PAPER.items()),
            ),
        ),
    )


def cost_result() -> ExperimentResult:
    """Numbers of all other units, and one that was not measured."""
    return ExperimentResult(
        name="cost",
        title="What it costs",
        question="How long does a prompt take to train and to answer, and how large is it?",
        tables=(
            Table(
                "Cost by way of tuning",
                (
                    Column("way", "text"),
                    Column("training", "seconds"),
                    Column("one answer", "milliseconds"),
                    Column("size", "bytes"),
                    Column("against a head alone", "ratio"),
                ),
                (
                    ("head alone", 8.41, 12.3, 79_200, 1.0),
                    ("deep prompt", 96.2, 12.9, 126_000, 1.05),
                    ("fine-tuning", 5_460.0, 12.2, 22_100_000, None),
                ),
            ),
        ),
        claims=(ClaimCheck("A prompt is less than a hundredth of the backbone.", "0.57 %", True),),
        notes=("Times are of two cores without a graphics card.",),
    )


def example_report() -> StudyReport:
    """Return a report of all these results."""
    return StudyReport(
        title="À-la-carte prompt tuning, measured on flowers102-small",
        setup=(
            ("data", "flowers102-small.tar: 2,652 training and 1,020 test pictures of 102 labels"),
            (
                "backbone",
                "vit_tiny_patch16_224 at 160 px, 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            ),
            ("recipe", "default: 20 epochs, batch 8, rate 0.1, seed 0"),
            ("took", "1 h 12 min on 2 cores"),
        ),
        experiments=(shards_result(), forgetting_result(), data_sets_result(), cost_result()),
    )
