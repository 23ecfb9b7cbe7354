"""Callers for tests, as a token of theirs would make them."""

from typing import cast

from alacarte.api.literals import Role
from registry.access.caller import Caller
from registry.db.models.users import User


def caller_of(user: User) -> Caller:
    return Caller(user.id, cast(Role, user.role))
