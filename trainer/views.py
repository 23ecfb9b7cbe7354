"""A view: one picture as training looks at it, as it is served or augmented, always the same for the same key."""

import hashlib
import random
from dataclasses import dataclass

from torch import Tensor

from alacarte.prompting.augment import rand_augment
from alacarte.prompting.preprocess import Preprocessing, decode
from registry.reading.sample import Sample

Key = tuple[str, int | None, int]  # digest, number of the view, seed


@dataclass(frozen=True)
class View:
    """One view of a sample: `number` None is the picture as it is served, others are augmented."""

    sample: Sample
    number: int | None = None
    seed: int = 0

    @property
    def key(self) -> Key:
        """What the pixels depend on."""
        return self.sample.digest, self.number, 0 if self.number is None else self.seed

    def load(self, preprocessing: Preprocessing) -> Tensor:
        """The view as the backbone sees it, (3, S, S)."""
        image = decode(self.sample.path)
        if self.number is not None:
            seed = hashlib.sha256(f"{self.seed} {self.number} {self.sample.digest}".encode()).digest()
            image = rand_augment(preprocessing.fit(image), random.Random(seed))
            return preprocessing.tensor(image)
        return preprocessing(image)
