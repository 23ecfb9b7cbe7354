"""The caller of an operation: an authenticated user, or the operator."""

from dataclasses import dataclass
from uuid import UUID

from alacarte.api.literals import Role
from registry.errors import Forbidden


@dataclass(frozen=True)
class Caller:
    """An authenticated user; or the operator at the machine itself, who has no user row and all rights of an admin."""

    user_id: UUID | None
    role: Role

    @property
    def is_admin(self) -> bool:
        """Return whether the caller may see, manage and forget every source; using one still requires a grant."""
        return self.role == "admin"


OPERATOR = Caller(user_id=None, role="admin")


def require_admin(caller: Caller) -> None:
    """Raise Forbidden unless the caller is an admin."""
    if not caller.is_admin:
        raise Forbidden("only admins may do this: ask an admin")
