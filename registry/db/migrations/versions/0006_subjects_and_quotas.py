"""Users who prove themselves by an issuer elsewhere, and how much each may store."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    # Plain columns: SQLite would have to make the table anew for a constraint, and that would remove what refers to it.
    op.add_column("users", sa.Column("issuer", sa.Text(), nullable=True))
    op.add_column("users", sa.Column("subject", sa.Text(), nullable=True))
    op.add_column("users", sa.Column("quota_bytes", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_users_issuer_subject"), "users", ["issuer", "subject"], unique=True)
