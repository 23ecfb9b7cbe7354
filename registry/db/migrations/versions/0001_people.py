"""The log, users, groups and tokens."""

import sqlalchemy as sa
from alembic import op

from registry.db.clock import UtcDateTime

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    op.create_table(
        "audit_lines",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.Uuid(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.JSON(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit_lines")),
    )
    op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_audit_head_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_head")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("is_group", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("role IN ('admin', 'owner', 'predictor')", name=op.f("ck_users_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "memberships",
        sa.Column("group_id", sa.Uuid(), nullable=False),
        sa.Column("member_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["users.id"], name=op.f("fk_memberships_group_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["member_id"], ["users.id"], name=op.f("fk_memberships_member_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("group_id", "member_id", name=op.f("pk_memberships")),
    )
    op.create_index(op.f("ix_memberships_member_id"), "memberships", ["member_id"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("prefix", name=op.f("uq_tokens_prefix")),
    )
    op.create_index(op.f("ix_tokens_user_id"), "tokens", ["user_id"], unique=False)
    head = sa.table("audit_head", sa.column("id"), sa.column("number"), sa.column("hash"))
    op.bulk_insert(head, [{"id": 1, "number": 0, "hash": "0" * 64}])
