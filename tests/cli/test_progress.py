"""Progress on stderr: a bar where someone watches, lines where nobody does."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte.cli.progress import MAX_LINES, format_duration, show_training
from trainer.optimize import EpochProgress

SAMPLES = {"shard-0": 3, "shard-1": 5}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def train(epochs: int) -> None:
    with show_training(SAMPLES, epochs) as make_callback:
        for name in SAMPLES:
            report = make_callback(name)
            for epoch in range(1, epochs + 1):
                report(EpochProgress(epoch, epochs, loss=1 / epoch, rate=0.1))


@pytest.mark.parametrize("epochs", [1, 7, 10, 11, 80])
def test_lines_are_few_and_the_last_epoch_is_among_them(epochs: int, capsys: pytest.CaptureFixture[str]) -> None:
    train(epochs)

    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) <= 2 * (MAX_LINES + 1)
    assert lines[-1] == f"shard-1 (2 of 2): epoch {epochs} of {epochs}, loss {1 / epochs:.3f}, 0:00 left"


def test_a_terminal_sees_a_bar_with_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    train(4)

    shown = terminal.getvalue()
    assert "shard-1 (2 of 2)" in shown
    assert "epoch 4 of 4, loss 0.250" in shown


@given(st.integers(0, 10**6))
def test_a_clock_shows_every_second(seconds: int) -> None:
    parts = [int(part) for part in format_duration(seconds).split(":")]

    assert sum(part * 60**place for place, part in enumerate(reversed(parts))) == seconds
    assert all(part < 60 for part in parts[1:])
