"""Sending prompts to a service, from where their pictures are: whatever can be refused is asked before training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from alacarte.api.sources import PromptResponse
from alacarte.cli.errors import CommandError
from alacarte.cli.remote_options import asking
from alacarte.client import Client, ClientError, ServiceProblem

if TYPE_CHECKING:  # importing it imports torch
    from alacarte.cli.actions.train import Plan

NOT_FOUND = 404


@dataclass(frozen=True)
class Destination:
    """A source of a service, and what its task asks of a prompt."""

    url: str
    token: str = field(repr=False)
    source_id: UUID
    task: str
    backbone: str
    size: int | None
    identity: str | None  # of the backbone; None until the task has its first prompt
    labels: tuple[str, ...] | None  # None: whatever prompts bring
    recipe: Mapping[str, Any]  # Any: texts and numbers, which are checked where they get their meaning


def find_destination(
    url: str, token: str, source: str | None, task: str | None, say: Callable[[str], None]
) -> Destination:
    """The source that prompts can be sent to; with a task it is made if it is not there."""
    if source is None:
        raise CommandError("--push needs a source: name it with --source, and its task with --task to have it made")
    with asking(url, token) as client:
        source_id = find_or_make(client, source, task, say)
        state = client.get_source(source_id)
        if "manage" not in state.rights:
            raise CommandError(f"you may not add to the source {state.name}: ask its owner for the right to manage it")
        of = client.get_task(state.task_id)
    labels = None if of.labels is None else tuple(of.labels)
    return Destination(url, token, source_id, of.name, of.backbone, of.size, of.identity, labels, of.recipe)


def suit(plan: "Plan", destination: Destination, given: Mapping[str, Any], say: Callable[[str], None]) -> "Plan":
    """The plan as the destination's task asks for it, where options have not said otherwise; tells what it took."""
    from trainer.recipe import recipe_from_settings

    asked = dict(destination.recipe)
    if given.get("augment") == "none" and "views" not in given:
        asked.pop("views", None)  # which are views of what is not done
    recipe = recipe_from_settings({**asked, **given}, plan.recipe.seed)
    wanted = replace(plan.backbone, name=plan.backbone.name or destination.backbone)
    size = plan.size or destination.size
    taken = {} if plan.backbone.name else {"backbone": destination.backbone}
    taken |= {} if plan.size or not size else {"size": f"{size} px"}
    taken |= {word: value for word, value in asked.items() if word not in given}
    if taken:
        told = ", ".join(f"{word} {value}" for word, value in taken.items())
        say(f"as the task {destination.task} asks: {told}")
    return replace(
        plan, backbone=wanted, size=size, recipe=recipe, identity=destination.identity, labels=destination.labels
    )


def push_prompts(destination: Destination, files: Sequence[Path], say: Callable[[str], None]) -> list[str]:
    """Sends the prompt files, each as a shard of its own; returns the ids of the shards."""
    with asking(destination.url, destination.token) as client:
        return [str(sent.shard_id) for sent in send_prompts(client, destination.source_id, files, say)]


def send_prompts(
    client: Client, source_id: UUID, files: Sequence[Path], say: Callable[[str], None]
) -> list[PromptResponse]:
    """Sends the prompt files, each as a shard of its own."""
    sent: list[PromptResponse] = []
    for file in files:
        try:
            sent.append(client.push_prompt(source_id, file))
        except ClientError as error:
            # Not tried again: if it did arrive, its pictures would count twice.
            raise CommandError(
                f"{file}: {error}; of {len(files)} prompts {len(sent)} were sent, and all files are kept: look "
                f"what source {source_id} has before you send the rest"
            ) from error
        say(f"{file} is shard {sent[-1].shard_id} of source {source_id}")
    return sent


def find_or_make(client: Client, source: str, task: str | None, say: Callable[[str], None]) -> UUID:
    """The id of the source; with a task it is made if it is not there."""
    try:
        return client.find_source(source, task).id
    except ServiceProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        if task is None:
            raise CommandError(f"{problem.detail}: name its task with --task to have it made") from problem
    made = client.create_source(source, task=task)
    say(f"made the source {made.name}, {made.id}")
    return made.id
