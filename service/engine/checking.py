"""Whether the engine can compute at all by its settings, told before anybody asks it for an answer."""

import torch

from service.engine.errors import EngineRefused
from service.engine.settings import EngineSettings


def require_computable(settings: EngineSettings) -> None:
    """EngineRefused for a device that is not there, or weights that are none."""
    weights = settings.weights
    if weights is not None and weights != "random" and not weights.is_file():
        raise EngineRefused(f"there are no weights at {weights}: set ALACARTE_WEIGHTS to a .safetensors file")
    try:
        torch.ones(1, device=settings.device).item()
    except (RuntimeError, AssertionError) as error:  # both are torch's ways to say that it has none
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EngineRefused(
            f"the device {settings.device!r} cannot be used ({reason}): set ALACARTE_DEVICE to another"
        ) from error
