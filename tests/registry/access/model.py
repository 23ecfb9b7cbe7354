"""A model of rights in plain Python, to compare the real ones with."""

from dataclasses import dataclass, field
from uuid import UUID

from alacarte.api.literals import Right, Role
from registry.db.models.users import RIGHTS


@dataclass
class RightsModel:
    """The expected users, sources and grants, and the rules of rights without SQL."""

    roles: dict[UUID, Role] = field(default_factory=dict)
    groups: set[UUID] = field(default_factory=set)
    members: set[tuple[UUID, UUID]] = field(default_factory=set)  # group, user
    tokens: dict[str, tuple[UUID, UUID]] = field(default_factory=dict)  # text: token, user
    sources: dict[UUID, tuple[UUID, str, UUID | None]] = field(default_factory=dict)  # task, name, owner
    grants: set[tuple[UUID, UUID, Right]] = field(default_factory=set)  # user, source, right
    prompts: dict[UUID, UUID] = field(default_factory=dict)  # prompt: source
    releases: dict[UUID, tuple[UUID, set[UUID]]] = field(default_factory=dict)  # release: task, prompts

    def granted(self, user: UUID, source: UUID) -> set[Right]:
        holders = {user} | {group for group, member in self.members if member == user}
        return {right for holder, granted, right in self.grants if holder in holders and granted == source}

    def rights(self, user: UUID, source: UUID) -> set[Right]:
        rights = self.granted(user, source)
        if self.roles[user] == "admin":
            rights |= {"manage", "forget"}
        if self.sources[source][2] == user:
            rights |= set(RIGHTS)
        return rights

    def usable(self, user: UUID, task: UUID) -> set[UUID]:
        return {s for s, (its_task, _, _) in self.sources.items() if its_task == task and "use" in self.rights(user, s)}

    def grantable(self, user: UUID, source: UUID) -> set[Right]:
        if self.roles[user] == "admin" or self.sources[source][2] == user:
            return set(RIGHTS)
        return {"use"} if "manage" in self.rights(user, source) else set()
