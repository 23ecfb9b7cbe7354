"""Sending prompts to a service, from where their pictures are: whatever can be refused is asked before training."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from alacarte.cli.faults import CommandRefused
from alacarte.client import Client, ClientError, ServiceProblem

NOT_FOUND = 404


@dataclass(frozen=True)
class Destination:
    """A source of a service, and what its task asks of a prompt."""

    url: str
    token: str = field(repr=False)
    source_id: str
    backbone: str
    size: int | None
    identity: str | None  # of the backbone; None until the task has its first prompt
    labels: tuple[str, ...] | None  # None: whatever prompts bring


def find_destination(
    url: str, token: str | None, source: str | None, task: str | None, say: Callable[[str], None]
) -> Destination:
    """The source that prompts can be sent to; with a task it is made if it is not there."""
    if token is None:
        raise CommandRefused("--push needs a token of the service: give it in ALACARTE_TOKEN or with --token")
    if source is None:
        raise CommandRefused("--push needs a source: name it with --source, and its task with --task to have it made")
    with _asking(url, token) as client:
        source_id = _find_or_make(client, source, task, say)
        state = client.source(source_id)
        if "manage" not in state.rights:
            raise CommandRefused(
                f"you may not add to the source {state.name}: ask its owner for the right to manage it"
            )
        of = client.task(state.task_id)
    return Destination(url, token, source_id, of.backbone, of.size, of.identity, of.labels)


def push_prompts(destination: Destination, files: Sequence[Path], say: Callable[[str], None]) -> list[str]:
    """Sends the prompt files, each as a shard of its own; returns the ids of the shards."""
    shards: list[str] = []
    with _asking(destination.url, destination.token) as client:
        for file in files:
            try:
                shards.append(client.push_prompt(destination.source_id, file).shard_id)
            except ClientError as error:
                # Not tried again: if it did arrive, its pictures would count twice.
                raise CommandRefused(
                    f"{file}: {error}; of {len(files)} prompts {len(shards)} were sent, and all files are kept: look "
                    f"what source {destination.source_id} has before you send the rest"
                ) from error
            say(f"{file} is shard {shards[-1]} of source {destination.source_id}")
    return shards


def _find_or_make(client: Client, source: str, task: str | None, say: Callable[[str], None]) -> str:
    try:
        return client.find_source(source, task).id
    except ServiceProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        if task is None:
            raise CommandRefused(f"{problem.detail}: name its task with --task to have it made") from problem
    made = client.create_source(source, task=task)
    say(f"made the source {made.name}, {made.id}")
    return made.id


@contextmanager
def _asking(url: str, token: str) -> Iterator[Client]:
    """A client whose errors are told as those of a command."""
    try:
        with Client(url, token) as client:
            yield client
    except (ClientError, ValueError) as error:
        raise CommandRefused(str(error)) from error
