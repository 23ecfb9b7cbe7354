"""Rename the tables of the log and of write claims, and the columns whose names did not say what they hold."""

import sqlalchemy as sa
from alembic import op

from registry.db.clock import UtcDateTime

revision = "0007"
down_revision = "0006"

RENAMED_COLUMNS = (
    ("erasures", "holdings", "write_claims"),
    ("shards", "is_held", "is_paused"),
    ("prompts", "facts", "artifact_metadata"),
    ("tombstones", "mark", "hash"),
    ("tombstones", "made_at", "created_at"),
)


def upgrade() -> None:
    # The three tables are copied, because SQLite cannot rename constraints. No foreign key points to them.
    op.create_table(
        "log_entries",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.Uuid(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.JSON(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_log_entries")),
    )
    _move_rows("audit_lines", "log_entries")
    op.create_table(
        "log_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_log_head_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log_head")),
    )
    _move_rows("audit_head", "log_head")
    op.create_table(
        "write_claims",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("shard_id", sa.Uuid(), nullable=True),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("scratch_id", sa.Uuid(), nullable=True),
        sa.Column("prefixes", sa.JSON(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("purpose IN ('upload', 'train')", name=op.f("ck_write_claims_purpose")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_write_claims")),
    )
    _move_rows("holdings", "write_claims")
    op.create_index(op.f("ix_write_claims_source_id"), "write_claims", ["source_id"], unique=False)
    for table, old, new in RENAMED_COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


def _move_rows(old: str, new: str) -> None:
    """Copy all rows into a table with the same columns in the same order, and drop the old table."""
    op.execute(f"INSERT INTO {new} SELECT * FROM {old}")  # noqa: S608  # names from this file
    op.drop_table(old)
