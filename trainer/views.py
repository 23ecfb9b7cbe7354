"""A view: one picture as training looks at it, as it is served or augmented, always the same for the same key."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from alacarte.prompting.augment import rand_augment
from alacarte.prompting.backbone.preprocess import Preprocessing, decode
from alacarte.prompting.errors import PictureDecodeError
from registry.datasets.dataset import LabelledPicture

Key = tuple[str, int | None, int]  # digest, number of the view, seed


@dataclass(frozen=True)
class View:
    """One view of a sample: `number` None is the picture as it is served, others are augmented."""

    sample: LabelledPicture
    number: int | None = None
    seed: int = 0

    @property
    def key(self) -> Key:
        """What the pixels depend on."""
        return self.sample.digest, self.number, 0 if self.number is None else self.seed

    def load(self, preprocessing: Preprocessing) -> Tensor:
        """The view as the backbone sees it, (3, S, S)."""
        image = decode(self._bytes())
        if self.number is not None:
            seed = hashlib.sha256(f"{self.seed} {self.number} {self.sample.digest}".encode()).digest()
            image = rand_augment(preprocessing.fit(image), random.Random(seed))
            return preprocessing.tensor(image)
        return preprocessing(image)

    def _bytes(self) -> bytes:
        """The sample's bytes, which must still be those that its digest names."""
        try:
            data = self.sample.path.read_bytes()
        except OSError as error:
            raise PictureDecodeError(f"{self.sample.path} cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != self.sample.digest:
            raise PictureDecodeError(f"{self.sample.path} has changed since it was first read: start again")
        return data


def served_batches(samples: Sequence[LabelledPicture], size: int) -> Iterator[list[View]]:
    """The samples as they are served, in order, `size` at a time."""
    for start in range(0, len(samples), size):
        yield [View(sample) for sample in samples[start : start + size]]
