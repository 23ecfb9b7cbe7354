"""Erasures, their steps and keys, and who holds bytes outside the rows."""

import sqlalchemy as sa
from alembic import op

from registry.db.clock import UtcDateTime

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("shard_id", sa.Uuid(), nullable=True),
        sa.Column("sample", sa.Text(), nullable=True),
        sa.Column("prefixes", sa.JSON(), nullable=False),
        sa.Column("holdings", sa.JSON(), nullable=False),
        sa.Column("requested_by", sa.Uuid(), nullable=True),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("not_before", UtcDateTime(), nullable=False),
        sa.Column("completed_at", UtcDateTime(), nullable=True),
        sa.Column("receipt", sa.JSON(), nullable=True),
        sa.CheckConstraint("scope IN ('source', 'shard', 'sample')", name=op.f("ck_erasures_scope")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )
    op.create_index(
        op.f("ix_erasures_completed_at_not_before"), "erasures", ["completed_at", "not_before"], unique=False
    )
    op.create_index(op.f("ix_erasures_source_id"), "erasures", ["source_id"], unique=False)
    op.create_table(
        "erasure_steps",
        sa.Column("erasure_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.Column("done_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["erasure_id"], ["erasures.id"], name=op.f("fk_erasure_steps_erasure_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("erasure_id", "number", name=op.f("pk_erasure_steps")),
    )
    op.create_table(
        "signing_keys",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("public", sa.Text(), nullable=False),
        sa.Column("added_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_signing_keys")),
    )
    op.create_table(
        "holdings",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("shard_id", sa.Uuid(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("home", sa.Uuid(), nullable=True),
        sa.Column("prefixes", sa.JSON(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("purpose IN ('upload', 'train')", name=op.f("ck_holdings_purpose")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_holdings")),
    )
    op.create_index(op.f("ix_holdings_source_id"), "holdings", ["source_id"], unique=False)
    op.create_table(
        "replicas",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replicas")),
    )
