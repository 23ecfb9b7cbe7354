"""The pictures that everyone is asked about: cut-outs of the two photographs that scikit-learn ships."""

import io
import random

from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

COUNT = 32
WIDE, HIGH = 500, 375  # as ImageNet's pictures mostly are
QUALITY = 90


def make_pictures(count: int = COUNT) -> list[bytes]:
    """So many JPEG files, every one another; the same ones each time."""
    chance = random.Random(0)
    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    pictures = []
    for number in range(count):
        whole = photographs[number % len(photographs)]
        left, top = chance.randint(0, whole.width - WIDE), chance.randint(0, whole.height - HIGH)
        cut = whole.crop((left, top, left + WIDE, top + HIGH))
        file = io.BytesIO()
        (ImageOps.mirror(cut) if chance.random() < 0.5 else cut).save(file, "JPEG", quality=QUALITY)
        pictures.append(file.getvalue())
    return pictures
