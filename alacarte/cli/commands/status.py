"""`alacarte status`: whether a service is ready, who you are to it, and what you may use."""

from typing import TYPE_CHECKING

from alacarte.cli.errors import TemporaryFailure
from alacarte.cli.options import Json
from alacarte.cli.output import print_json, print_list, print_object

if TYPE_CHECKING:
    from alacarte.client import Client


def status(client: "Client", as_json: Json = False) -> None:
    """Show who you are to a service, whether it is ready (else the exit code is 75), and what you may use."""
    me = client.get_current_user()
    groups = [group.name for group in client.list_groups(me.id)]
    is_ready = client.is_ready()
    tasks = {task.id: task.name for task in client.list_tasks()}
    # Only the service knows the rights that follow from ownership, grants and groups.
    states = [client.get_source(source.id) for source in client.list_sources()]
    sources = [
        {**state.model_dump(include={"id", "name", "rights", "progress"}), "task": tasks.get(state.task_id)}
        for state in states
    ]
    document = {"url": client.url, "ready": is_ready, "id": me.id, "name": me.name, "role": me.role, "groups": groups}
    if as_json:
        print_json({**document, "sources": sources})
    else:
        print_object(document, as_json=False)
        print_list("sources", sources, ("name", "task", "rights", "progress", "id"), as_json=False)
    if not is_ready:
        raise TemporaryFailure(f"{client.url} is not ready to predict")
