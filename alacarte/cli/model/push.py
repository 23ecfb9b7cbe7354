"""Send prompt files to a service; everything that can be refused is checked before training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from alacarte.api.sources import PromptResponse
from alacarte.cli.backend import open_client
from alacarte.cli.errors import CommandError
from alacarte.cli.output import print_message
from alacarte.client import Client, ClientError, ServiceProblem

if TYPE_CHECKING:  # importing it imports torch
    from alacarte.cli.model.train_shards import TrainPlan

NOT_FOUND = 404


@dataclass(frozen=True)
class PushTarget:
    """A source of a service, and what its task requires of a prompt."""

    url: str
    token: str = field(repr=False)
    source_id: UUID
    task: str
    backbone: str
    size: int | None
    identity: str | None  # of the backbone; None until the task has its first prompt
    labels: tuple[str, ...] | None  # None: any
    recipe: Mapping[str, Any]  # Any: validated when the recipe is built


def find_push_target(url: str, token: str, source: str | None, task: str | None) -> PushTarget:
    """Return the source that prompts can be sent to; it is created if it does not exist and a task is named."""
    if source is None:
        raise CommandError("--push needs --source NAME; with --task NAME the source is created if it does not exist")
    with open_client(url, token) as client:
        source_id = find_or_create_source(client, source, task)
        state = client.get_source(source_id)
        if "manage" not in state.rights:
            raise CommandError(f"you may not add to the source {state.name}: ask its owner for the right to manage it")
        of = client.get_task(state.task_id)
    labels = None if of.labels is None else tuple(of.labels)
    return PushTarget(url, token, source_id, of.name, of.backbone, of.size, of.identity, labels, of.recipe)


def adapt_plan(plan: "TrainPlan", target: PushTarget, given: Mapping[str, Any]) -> "TrainPlan":
    """Return the plan with the backbone, size and recipe of the target's task where no option overrides them."""
    from trainer.recipe import recipe_from_settings

    recipe = dict(target.recipe)
    if given.get("augment") == "none" and "views" not in given:
        recipe.pop("views", None)  # without augmentation there is only one view
    size = plan.size or target.size
    taken = {} if plan.backbone.name else {"backbone": target.backbone}
    taken |= {} if plan.size or not size else {"size": f"{size} px"}
    taken |= {name: value for name, value in recipe.items() if name not in given}
    if taken:
        listed = ", ".join(f"{name} {value}" for name, value in taken.items())
        print_message(f"options of the task {target.task}: {listed}")
    return replace(
        plan,
        backbone=replace(plan.backbone, name=plan.backbone.name or target.backbone),
        size=size,
        recipe=recipe_from_settings({**recipe, **given}, plan.recipe.seed),
        identity=target.identity,
        labels=target.labels,
    )


def push_prompts(target: PushTarget, files: Sequence[Path]) -> list[str]:
    """Send the prompt files, each as a shard, and return the ids of the shards."""
    with open_client(target.url, target.token) as client:
        return [str(sent.shard_id) for sent in send_prompts(client, target.source_id, files)]


def send_prompts(client: Client, source_id: UUID, files: Sequence[Path]) -> list[PromptResponse]:
    """Send the prompt files, each as a shard of the source."""
    sent: list[PromptResponse] = []
    for file in files:
        try:
            sent.append(client.push_prompt(source_id, file))
        except ClientError as error:
            # No retry: if the prompt did arrive, its pictures would count twice.
            raise CommandError(
                f"{file}: {error}; of {len(files)} prompts {len(sent)} were sent, and all files are kept: check "
                f"the shards of source {source_id} before you send the rest"
            ) from error
        print_message(f"{file} is shard {sent[-1].shard_id} of source {source_id}")
    return sent


def find_or_create_source(client: Client, source: str, task: str | None) -> UUID:
    """Return the id of the source; it is created if it does not exist and a task is named."""
    try:
        return client.find_source(source, task).id
    except ServiceProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        if task is None:
            raise CommandError(f"{problem.detail}: name its task with --task to create it") from problem
    created = client.create_source(source, task=task)
    print_message(f"created the source {created.name}, {created.id}")
    return created.id
