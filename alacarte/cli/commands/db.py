"""`alacarte db`: create and migrate the registry."""

import typer

from alacarte.cli.backend import local_only
from alacarte.cli.options import Json
from alacarte.cli.output import print_object

app = typer.Typer(no_args_is_help=True, help="The registry's database: its tables and their version.")


@app.command()
@local_only
def upgrade(as_json: Json = False) -> None:
    """Create the registry, or migrate it to this version."""
    from registry.registry import open_database, upgrade_registry
    from registry.settings import load_registry_settings

    settings = load_registry_settings()
    before, after = upgrade_registry(settings)
    names = {"database": open_database(settings).name, "objects": settings.objects_location}
    print_object({**names, "before": before, "after": after}, as_json=as_json)


@app.command()
@local_only
def status(as_json: Json = False) -> None:
    """Show where the registry is stored, and whether it has the tables of this version."""
    from registry.db import migrate
    from registry.registry import open_database
    from registry.settings import load_registry_settings

    settings = load_registry_settings()
    database = open_database(settings)
    try:
        here, newest = migrate.current(database), migrate.revisions()[-1]
    finally:
        database.close()
    print_object(
        {
            "database": database.name,
            "revision": here,
            "newest": newest,
            "is_current": here == newest,
            "objects": settings.objects_location,
            "scratch": str(settings.scratch_folder),
            "signing_key": str(settings.signing_key_file),
        },
        as_json=as_json,
    )
