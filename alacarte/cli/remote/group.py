"""`alacarte remote`: the commands of those who have a URL and a token, named as the methods of the client are."""

import typer

from alacarte.cli.remote import (
    forget,
    grants,
    predict,
    releases,
    sources,
    status,
    tasks,
    tokens,
    upload,
    users,
)
from alacarte.cli.remote.client_context import asks

PANELS = {
    "Use": (status.status, predict.predict, sources.sources, sources.source, tasks.tasks, tasks.task),
    "Lend": (
        upload.upload,
        upload.extend,
        upload.push,
        sources.samples,
        sources.cancel,
        sources.resume,
        grants.grants,
        grants.grant,
        grants.revoke,
    ),
    "Forget": (forget.forget, forget.erasures, forget.erasure, forget.verify),
    "Administer": (
        tasks.create_task,
        tasks.remove_task,
        releases.releases,
        releases.release,
        releases.pin_release,
        releases.remove_release,
        users.users,
        users.user,
        users.create_user,
        users.remove_user,
        users.join,
        users.leave,
        tokens.tokens,
        tokens.issue_token,
        tokens.revoke_token,
    ),
}

app = typer.Typer(
    no_args_is_help=True,
    help="Ask a service on another machine, by its URL (ALACARTE_URL) and your token (ALACARTE_TOKEN).",
)
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(asks(command))
