"""On whose behalf something is done."""

from dataclasses import dataclass
from uuid import UUID

from alacarte.api.literals import Role
from registry.errors import Forbidden


@dataclass(frozen=True)
class Caller:
    """A user proved by a token, or the operator at the machine itself, who has no user and may do everything."""

    user_id: UUID | None
    role: Role

    @property
    def is_admin(self) -> bool:
        """Whether every source may be seen, managed and forgotten; using one still takes a grant."""
        return self.role == "admin"


OPERATOR = Caller(user_id=None, role="admin")


def require_admin(caller: Caller) -> None:
    """Refuses everybody else."""
    if not caller.is_admin:
        raise Forbidden("this is for admins: ask one")
