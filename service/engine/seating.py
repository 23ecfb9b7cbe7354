"""Who has a seat: the prompts that a pass finds on the device, and the pictures of a batch that found theirs."""

from dataclasses import dataclass, field
from uuid import UUID

from torch import Tensor

from alacarte.prompting.logits import Seat
from registry.usable_set import UsablePrompt
from service.engine.loading import Loaded


@dataclass(eq=False)
class Resident:
    """A prompt that a pass finds on the device."""

    digest: str
    seat: Seat
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D), on the host
    owners: dict[UUID, UsablePrompt]
    beside_bytes: int  # what it takes besides its slot
    stays: bool


@dataclass
class Seating:
    """Who of a batch found all their prompts, by their place in it, and who did not."""

    seated: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)  # a prompt has left: fetch it, and ask again
    later: list[int] = field(default_factory=list)  # the slots are full: after this batch, or after another
    is_cramped: bool = False  # slots are wider and fewer than need be, since another batch reads them
    residents: dict[str, Resident] = field(default_factory=dict)
    entering: list[tuple[int, Loaded]] = field(default_factory=list)  # what must be put into which slot
