"""Tasks, sources with their shards and samples, and grants."""

import sqlalchemy as sa
from alembic import op

from registry.db.clock import UtcDateTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("backbone", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=True),
        sa.Column("identity", sa.Text(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=True),
        sa.Column("composition", sa.Text(), nullable=False),
        sa.Column("weighting", sa.Text(), nullable=False),
        sa.Column("recipe", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("composition IN ('average', 'concat', 'vote')", name=op.f("ck_tasks_composition")),
        sa.CheckConstraint("weighting IN ('none', 'prototypes')", name=op.f("ck_tasks_weighting")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("name", name=op.f("uq_tasks_name")),
    )
    op.create_table(
        "sources",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("erasure_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("(name IS NULL) = (erasure_id IS NOT NULL)", name=op.f("ck_sources_named_unless_forgotten")),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_sources_owner_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_sources_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sources")),
        sa.UniqueConstraint("task_id", "name", name=op.f("uq_sources_task_id_name")),
    )
    op.create_index(op.f("ix_sources_owner_id"), "sources", ["owner_id"], unique=False)
    op.create_table(
        "shards",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("is_remote", sa.Boolean(), nullable=False),
        sa.Column("erasure_id", sa.Uuid(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", UtcDateTime(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("is_held", sa.Boolean(), nullable=False),
        sa.Column("lease_id", sa.Uuid(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(lease_id IS NULL) = (worker IS NULL) AND (lease_id IS NULL) = (expires_at IS NULL)",
            name=op.f("ck_shards_lease"),
        ),
        sa.CheckConstraint("generation >= 1", name=op.f("ck_shards_generation")),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_shards_source_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shards")),
        sa.UniqueConstraint("lease_id", name=op.f("uq_shards_lease_id")),
        sa.UniqueConstraint("source_id", "number", name=op.f("uq_shards_source_id_number")),
    )
    op.create_table(
        "samples",
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("shard_id", sa.Uuid(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("added_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["shard_id"], ["shards.id"], name=op.f("fk_samples_shard_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_samples_source_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source_id", "digest", name=op.f("pk_samples")),
    )
    op.create_index(op.f("ix_samples_shard_id_digest"), "samples", ["shard_id", "digest"], unique=False)
    op.create_table(
        "tombstones",
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.Column("erasure_id", sa.Uuid(), nullable=False),
        sa.Column("made_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("fk_tombstones_source_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("source_id", "mark", name=op.f("pk_tombstones")),
    )
    op.create_table(
        "grants",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("right", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Uuid(), nullable=True),
        sa.Column("granted_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("\"right\" IN ('use', 'manage', 'forget')", name=op.f("ck_grants_right")),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_grants_source_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_grants_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
        sa.UniqueConstraint("user_id", "right", "source_id", name=op.f("uq_grants_user_id_right_source_id")),
    )
    op.create_index(op.f("ix_grants_source_id"), "grants", ["source_id"], unique=False)
