"""All tables at once: importing this module fills the metadata."""

from sqlalchemy import MetaData

from registry.db.models import catalog, erasures, installation, log, prompts, users, write_claims
from registry.db.models.base import Base

MODULES = (log, catalog, erasures, write_claims, installation, users, prompts)


def metadata() -> MetaData:
    """The tables as the code has them; migrations must arrive at the same."""
    return Base.metadata
