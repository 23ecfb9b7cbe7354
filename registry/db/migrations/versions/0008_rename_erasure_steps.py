"""Rename the steps of erasures; signed receipts keep the names that they were signed with."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

RENAMED_STEPS = {"serving": "unserve", "holdings": "write_claims", "look": "verify"}


def upgrade() -> None:
    steps = sa.table("erasure_steps", sa.column("name", sa.Text()))
    for old, new in RENAMED_STEPS.items():
        op.execute(steps.update().where(steps.c.name == old).values(name=new))
