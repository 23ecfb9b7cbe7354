"""`alacarte remote status`: whether the service answers, who you are to it, and what you may use."""

from typing import TYPE_CHECKING
from uuid import UUID

from alacarte.cli.errors import TemporaryFailure
from alacarte.cli.options import Json
from alacarte.cli.output import document_of, print_json, print_list, print_object
from alacarte.cli.remote.client_context import task_names

if TYPE_CHECKING:
    from alacarte.client import Client


def status(client: "Client", as_json: Json = False) -> None:
    """Show who you are to the service, whether it is ready (else the exit code is 75), and what you may use."""
    me = client.get_current_user()
    groups = [group.name for group in client.list_groups(me.id)]
    is_ready, tasks = client.is_ready(), task_names(client)
    rights = [_rights(client, source.id, tasks.get(source.task_id)) for source in client.list_sources()]
    document = {"url": client.url, "ready": is_ready, **document_of(me, "id", "name", "role"), "groups": groups}
    if as_json:
        print_json({**document, "sources": rights})
    else:
        print_object(document, as_json=False)
        print_list("sources", rights, ("name", "task", "rights", "progress", "id"), as_json=False)
    if not is_ready:
        raise TemporaryFailure(f"{client.url} is not ready to predict")


def _rights(client: "Client", source: UUID, task: str | None) -> dict[str, object]:
    state = client.get_source(source)  # the service alone says what follows from ownership, grants and groups
    return {
        "id": str(state.id),
        "name": state.name,
        "task": task,
        "rights": list(state.rights),
        "progress": state.progress,
    }
