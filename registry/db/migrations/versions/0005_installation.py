"""The id of the registry, and an index for replicas that ask what was forgotten since."""

import sqlalchemy as sa
from alembic import op

from registry.ids import new_id

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    made = op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("registry_id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_installation_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.bulk_insert(made, [{"id": 1, "registry_id": new_id()}])
    op.create_index(op.f("ix_erasures_epoch"), "erasures", ["epoch"], unique=False)
