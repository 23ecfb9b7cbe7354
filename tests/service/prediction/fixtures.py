"""Actions between the reads of the caller's rights."""

from collections.abc import Callable
from typing import Any

import pytest

from registry.access import usable_prompts
from service.prediction import rights_recheck


def after_each_read(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], Any]) -> list[None]:
    """Run one action after each of the first reads of the rights; the returned list grows with every read."""
    left = list(actions)
    reads: list[None] = []

    def read(*given: Any, **options: Any) -> usable_prompts.UsablePromptSet:
        allowed = usable_prompts.read_usable_prompts(*given, **options)
        reads.append(None)
        if left:
            left.pop(0)()
        return allowed

    monkeypatch.setattr(rights_recheck, "read_usable_prompts", read)
    return reads
