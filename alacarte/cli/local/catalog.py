"""The calls of the client on tasks, sources, uploads and releases, carried out on the registry of this machine."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypedDict, Unpack
from uuid import UUID

from alacarte._client.admin import normalize_name
from alacarte._client.polling import poll_training
from alacarte.api.literals import Composition, Weighting
from alacarte.api.releases import (
    ReleaseDetailResponse,
    ReleaseLossResponse,
    ReleaseMemberResponse,
    ReleaseResponse,
)
from alacarte.api.sources import (
    SampleResponse,
    SourceDetailResponse,
    SourceResponse,
    UploadResponse,
)
from alacarte.api.tasks import RecipeValue, TaskResponse
from alacarte.cli.local.registry import NameOrId, RegistryAccess
from registry.access.caller import OPERATOR
from registry.catalog import releases, samples, sources, tasks
from registry.catalog.source_status import read_source_status
from registry.errors import Conflict, NotFound
from registry.ingest.upload import add_samples, upload_source
from registry.training.control import cancel_training, resume_training

ProgressCallback = Callable[[int, int], None]  # pictures stored, pictures in total


class UploadKeywords(TypedDict, total=False):
    """The options that all uploads have."""

    shards: int
    within: str | None


class LocalCatalog(RegistryAccess):
    """Tasks, sources, uploads and releases."""

    def list_tasks(self) -> list[TaskResponse]:
        """Return all tasks."""
        return self._list(TaskResponse, tasks.list_tasks)

    def get_task(self, task: NameOrId) -> TaskResponse:
        """Return the task with this name or id."""
        return self._read(lambda session: TaskResponse.model_validate(tasks.find_task(session, task)))

    def create_task(
        self,
        name: str,
        *,
        backbone: str,
        size: int | None = None,
        labels: Collection[str] | None = None,
        composition: Composition | None = None,
        weighting: Weighting | None = None,
        recipe: Mapping[str, RecipeValue] | None = None,
    ) -> TaskResponse:
        """Create a task."""
        with self._registry.database.write_transaction() as session:
            task = tasks.create_task(
                session,
                OPERATOR,
                name,
                backbone=backbone,
                size=size,
                labels=labels,
                composition=composition or "average",
                weighting=weighting or "none",
                recipe=recipe,
            )
            return TaskResponse.model_validate(task)

    def delete_task(self, task: NameOrId) -> None:
        """Remove a task that has no sources and no releases."""
        self._write(lambda session: tasks.remove_task(session, OPERATOR, tasks.find_task(session, task).id))

    def list_sources(self, task: NameOrId | None = None) -> list[SourceResponse]:
        """Return all sources, or those of a task."""
        task_id = self._read(lambda session: self._task_id(session, task))
        return self._list(
            SourceResponse, lambda session, after: sources.list_sources(session, OPERATOR, task_id, after)
        )

    def find_source(self, source: NameOrId, task: NameOrId | None = None) -> SourceDetailResponse:
        """Return the source with this name or id, of a task if one is named."""
        with self._registry.database.read_transaction() as session:
            status = read_source_status(session, OPERATOR, self._source_id(session, source, task))
            return SourceDetailResponse.model_validate(status)

    def get_source(self, source: NameOrId) -> SourceDetailResponse:
        """Return a source with its shards and the state of their training."""
        return self.find_source(source)

    def list_samples(self, source: NameOrId, label: str | None = None) -> list[SampleResponse]:
        """Return the pictures of a source."""
        source_id = self._read(lambda session: self._source_id(session, source))
        return self._list(
            SampleResponse,
            lambda session, after: samples.list_samples(session, OPERATOR, source_id, after, label=label),
        )

    def find_sample(self, source: NameOrId, sample: str) -> str:
        """Return the digest of the picture with this digest or file name."""
        with self._registry.database.read_transaction() as session:
            return samples.find_sample(session, OPERATOR, self._source_id(session, source), sample).digest

    def cancel_training(self, source: NameOrId) -> int:
        """Stop the training of a source until it is resumed; return the number of shards."""
        return self._write(lambda session: cancel_training(session, OPERATOR, self._source_id(session, source)))

    def resume_training(self, source: NameOrId) -> int:
        """Resume training that was cancelled or is backing off; return the number of shards."""
        return self._write(lambda session: resume_training(session, OPERATOR, self._source_id(session, source)))

    def rename_source(self, source: NameOrId, name: str) -> SourceDetailResponse:
        """Rename a source."""
        source_id = self.find_source(source).id
        self._write(lambda session: sources.rename_source(session, OPERATOR, source_id, name))
        return self.find_source(source_id)

    def transfer_source(self, source: NameOrId, user: NameOrId) -> SourceDetailResponse:
        """Give a source to another owner."""
        with self._registry.database.write_transaction() as session:
            source_id, user_id = self._source_id(session, source), self._user_id(session, user)
            sources.transfer_source(session, OPERATOR, source_id, user_id)
        return self.find_source(source_id)

    def upload_source(
        self,
        name: str,
        path: Path,
        *,
        task: NameOrId,
        owner: NameOrId | None = None,
        skip_unreadable: bool = False,
        on_progress: ProgressCallback | None = None,
        **options: Unpack[UploadKeywords],
    ) -> UploadResponse:
        """Create a source of the pictures in an archive, a folder or a CSV; all or nothing."""
        with self._registry.database.read_transaction() as session:
            task_id = tasks.find_task(session, task).id
            owner_id = None if owner is None else self._user_id(session, owner)
        result = upload_source(
            self._registry,
            OPERATOR,
            task_id,
            name,
            path,
            owner_id=owner_id,
            unreadable="skip" if skip_unreadable else "refuse",
            report=on_progress,
            **options,
        )
        return UploadResponse.model_validate(result)

    def add_samples(
        self,
        source: NameOrId,
        path: Path,
        *,
        readmit: bool = False,
        skip_unreadable: bool = False,
        on_progress: ProgressCallback | None = None,
        **options: Unpack[UploadKeywords],
    ) -> UploadResponse:
        """Add pictures to a source, in new shards."""
        result = add_samples(
            self._registry,
            OPERATOR,
            self.find_source(source).id,
            path,
            unreadable="skip" if skip_unreadable else "refuse",
            readmit=readmit,
            report=on_progress,
            **options,
        )
        return UploadResponse.model_validate(result)

    def wait_until_trained(
        self,
        source: NameOrId,
        timeout: float | None = None,
        on_progress: Callable[[SourceDetailResponse], None] | None = None,
    ) -> SourceDetailResponse:
        """Wait until all shards of a source are trained."""
        return poll_training(lambda: self.get_source(source), timeout, on_progress)

    def list_releases(self, task: NameOrId | None = None) -> list[ReleaseResponse]:
        """Return all releases, or those of a task."""
        task_id = self._read(lambda session: self._task_id(session, task))
        return self._list(ReleaseResponse, lambda session, after: releases.list_releases(session, task_id, after))

    def get_release(self, release: NameOrId, task: NameOrId | None = None) -> ReleaseDetailResponse:
        """Return a release with the prompts it pins and those it lost to erasures."""
        release_id = self._release_id(release, task)
        with self._registry.database.read_transaction() as session:
            contents = releases.read_release(session, OPERATOR, release_id)
            return ReleaseDetailResponse(
                **ReleaseResponse.model_validate(contents.release).model_dump(),
                members=[ReleaseMemberResponse.model_validate(member) for member in contents.members],
                losses=[ReleaseLossResponse.model_validate(loss) for loss in contents.losses],
            )

    def pin_release(self, task: NameOrId, name: str) -> ReleaseResponse:
        """Pin the prompts that a task has now under a name."""
        with self._registry.database.write_transaction() as session:
            task_id = tasks.find_task(session, task).id
            return ReleaseResponse.model_validate(releases.pin_release(session, OPERATOR, task_id, name))

    def delete_release(self, release: NameOrId, task: NameOrId | None = None) -> None:
        """Remove a release; its prompts stay."""
        release_id = self._release_id(release, task)
        self._write(lambda session: releases.remove_release(session, OPERATOR, release_id))

    def _release_id(self, release: NameOrId, task: NameOrId | None) -> UUID:
        name = normalize_name(release)
        found = [known.id for known in self.list_releases(task) if name == known.name or name.lower() == str(known.id)]
        if not found:
            raise NotFound("release", release)
        if len(found) > 1:
            raise Conflict(f"several tasks have a release {release!r}: name the task with --task")
        return found[0]
