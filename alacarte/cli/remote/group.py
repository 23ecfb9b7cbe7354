"""`alacarte remote`: the commands of those who have a URL and a token, named as the methods of the client are."""

import typer

from alacarte.cli.remote import (
    forgetting,
    grants,
    people,
    predicting,
    releases,
    sending,
    sources,
    status,
    tasks,
    tokens,
)
from alacarte.cli.remote.asking import asks

PANELS = {
    "Use": (status.status, predicting.predict, sources.sources, sources.source, tasks.tasks, tasks.task),
    "Lend": (
        sending.upload,
        sending.extend,
        sending.push,
        sources.samples,
        sources.cancel,
        sources.resume,
        grants.grants,
        grants.grant,
        grants.revoke,
    ),
    "Forget": (forgetting.forget, forgetting.erasures, forgetting.erasure, forgetting.verify),
    "Administer": (
        tasks.create_task,
        tasks.remove_task,
        releases.releases,
        releases.release,
        releases.pin_release,
        releases.remove_release,
        people.users,
        people.user,
        people.create_user,
        people.remove_user,
        people.join,
        people.leave,
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
