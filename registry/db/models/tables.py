"""All tables at once: importing this module fills the metadata."""

from sqlalchemy import MetaData

from registry.models import audit, collections, erasures, holdings, installation, people, prompts
from registry.models.base import Base

MODULES = (audit, collections, erasures, holdings, installation, people, prompts)


def metadata() -> MetaData:
    """The tables as the code has them; migrations must arrive at the same."""
    return Base.metadata
