"""The paper's numbers: ViT-B/16, pretrained on ImageNet-21k, at 384 px (224 px for continual learning)."""

from collections.abc import Mapping
from dataclasses import dataclass

SETUP = "ViT-B/16 of ImageNet-21k at 384 px, the whole data set, 80 epochs for a prompt and 150 for the paragon"

Accuracies = Mapping[int, float]  # number of shards (1: the paragon) -> accuracy on the test pictures


@dataclass(frozen=True)
class PaperDataSet:
    """The paper's numbers for one of its data sets."""

    name: str
    shards: Accuracies
    fine_tuned_shards: Accuracies
    over_vote: Accuracies  # average minus majority vote
    concatenate: float  # two shards
    average: float
    tuning: Mapping[str, float]


def _parse_percent(counts: tuple[int, ...], values: str) -> dict[int, float]:
    return {count: float(value) / 100 for count, value in zip(counts, values.split(), strict=True)}


_COUNTS = (1, 2, 3, 5, 10, 15, 20, 50)
_SPLIT_COUNTS = _COUNTS[1:]
_TUNING_METHODS = ("fine-tuning", "head-only", "bias+head", "deep", "deep-shared", "shallow")


def _data_set(
    name: str, shards: str, fine_tuned: str, vote: str, naive: tuple[float, float], tuning: str
) -> PaperDataSet:
    return PaperDataSet(
        name=name,
        shards=_parse_percent(_COUNTS, shards),
        fine_tuned_shards=_parse_percent(_COUNTS, fine_tuned),
        over_vote=_parse_percent(_SPLIT_COUNTS, vote),
        concatenate=naive[0] / 100,
        average=naive[1] / 100,
        tuning={method: float(value) / 100 for method, value in zip(_TUNING_METHODS, tuning.split(), strict=True)},
    )


# In the order of the paper's tables, row by row.
DATA_SETS = (
    _data_set(
        "MIT-67",
        "86.2 86.2 86.0 87.3 86.8 86.3 86.3 84.2",
        "87.1 86.1 83.8 81.9 74.4 69.9 68.8 44.9",
        "3.1 0.9 0.6 0.7 0.6 0.9 0.5",
        (84.6, 85.1),
        "87.1 85.6 87.2 86.2 86.5 86.0",
    ),
    _data_set(
        "Cub-200",
        "86.6 87.8 87.2 87.2 86.5 85.5 83.9 79.9",
        "88.4 81.8 76.4 70.9 54.4 42.5 32.5 5.9",
        "3.3 1.1 1.5 0.8 1.0 0.8 1.3",
        (85.2, 84.6),
        "88.4 87.0 89.4 86.6 86.4 85.6",
    ),
    _data_set(
        "Caltech-256",
        "91.7 91.1 90.8 90.3 89.7 89.1 88.7 87.1",
        "93.5 90.3 87.8 85.8 81.0 78.2 74.1 52.0",
        "3.0 1.4 0.8 0.2 0.6 0.4 0.2",
        (91.1, 87.9),
        "93.5 90.4 93.0 91.7 91.3 90.4",
    ),
    _data_set(
        "Pets",
        "93.3 93.1 93.4 93.3 93.4 93.5 93.3 92.3",
        "94.5 93.6 92.6 91.2 89.7 84.2 81.6 55.8",
        "1.4 0.2 0.3 0.0 -0.1 0.2 0.3",
        (93.8, 91.4),
        "94.5 92.2 94.9 93.3 92.9 91.6",
    ),
    _data_set(
        "Aircrafts",
        "71.0 61.1 60.2 56.3 49.9 46.6 45.4 36.9",
        "75.6 51.1 44.5 36.2 24.1 23.0 19.2 12.3",
        "6.2 5.2 5.0 3.8 3.2 3.7 3.0",
        (56.5, 16.7),
        "75.6 54.8 75.6 71.0 68.2 62.1",
    ),
    _data_set(
        "Flowers",
        "99.1 99.3 99.1 98.8 98.5 98.6 97.6 97.7",
        "97.4 75.3 56.1 39.8 15.6 11.1 2.2 2.0",
        "0.7 4.2 0.2 0.6 0.7 1.3 2.8",
        (84.5, 96.3),
        "97.4 98.8 99.4 99.1 98.9 98.5",
    ),
    _data_set(
        "Stanford Cars",
        "81.2 70.7 66.6 59.4 52.1 47.0 45.8 39.1",
        "84.3 53.3 39.4 28.2 19.2 16.2 11.8 6.4",
        "9.0 7.6 5.6 5.5 4.9 5.1 4.7",
        (60.3, 26.1),
        "84.3 64.5 86.6 81.2 78.6 69.6",
    ),
)

# Means over the five data sets that the paper calls in-domain; it gives no other numbers of head-only ensembles.
IN_DOMAIN_HEADS = _parse_percent((1, 2, 3, 5, 10, 15, 20), "90.8 90.8 90.8 90.4 90.1 89.5 88.5")
IN_DOMAIN_PROMPTS = _parse_percent((1, 2, 3, 5, 10, 15, 20), "91.4 91.5 91.3 91.4 91.0 90.6 90.0")

# Split CIFAR-100 (10 episodes of 10 classes) and CORe50 (8 training domains, 3 test domains).
CLASS_INCREMENTAL = {"APT": 0.8363, "APT-W": 0.8521, "L2P": 0.8383, "LwF": 0.6069, "EWC": 0.4701}
DOMAIN_INCREMENTAL = {
    "APT": 0.9089,
    "APT-W": 0.9114,
    "S-liPrompts": 0.8906,
    "L2P": 0.7833,
    "LwF": 0.7545,
    "EWC": 0.7482,
}

SHARE_OF_PARAMETERS = 0.0006  # of a prompt, over the backbone's

_NAME_PARTS = {
    "mit": "MIT-67",
    "cub": "Cub-200",
    "caltech": "Caltech-256",
    "pets": "Pets",
    "aircraft": "Aircrafts",
    "flowers": "Flowers",
    "cars": "Stanford Cars",
}


def find_paper_data_set(name: str) -> PaperDataSet | None:
    """Return the paper's data set whose name is part of this one, if any."""
    for part, full_name in _NAME_PARTS.items():
        if part in name.casefold():
            return next(each for each in DATA_SETS if each.name == full_name)
    return None
