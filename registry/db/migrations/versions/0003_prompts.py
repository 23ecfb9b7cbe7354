"""Prompts and releases."""

import sqlalchemy as sa
from alembic import op

from registry.db.clock import UtcDateTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("shard_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["shard_id"], ["shards.id"], name=op.f("fk_prompts_shard_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("fk_prompts_source_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_prompts_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompts")),
        sa.UniqueConstraint("shard_id", name=op.f("uq_prompts_shard_id")),
    )
    op.create_index(op.f("ix_prompts_source_id"), "prompts", ["source_id"], unique=False)
    op.create_index(op.f("ix_prompts_task_id_source_id"), "prompts", ["task_id", "source_id"], unique=False)
    op.create_table(
        "releases",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Uuid(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_releases_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
        sa.UniqueConstraint("task_id", "name", name=op.f("uq_releases_task_id_name")),
    )
    op.create_table(
        "release_prompts",
        sa.Column("release_id", sa.Uuid(), nullable=False),
        sa.Column("prompt_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prompt_id"], ["prompts.id"], name=op.f("fk_release_prompts_prompt_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["release_id"], ["releases.id"], name=op.f("fk_release_prompts_release_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("release_id", "prompt_id", name=op.f("pk_release_prompts")),
    )
    op.create_index(op.f("ix_release_prompts_prompt_id"), "release_prompts", ["prompt_id"], unique=False)
    op.create_table(
        "release_losses",
        sa.Column("release_id", sa.Uuid(), nullable=False),
        sa.Column("prompt_id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("shard_id", sa.Uuid(), nullable=False),
        sa.Column("erasure_id", sa.Uuid(), nullable=False),
        sa.Column("lost_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["release_id"], ["releases.id"], name=op.f("fk_release_losses_release_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("release_id", "prompt_id", name=op.f("pk_release_losses")),
    )
