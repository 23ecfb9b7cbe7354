"""Authentication: from a credential to the caller, by one SQL query that is never cached here."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, cast

from sqlalchemy import Row, Select, bindparam, or_, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Role
from registry.access.caller import Caller
from registry.access.oidc_subjects import OidcCredential
from registry.access.tokens import TokenCredential
from registry.db.clock import UtcDateTime, now
from registry.db.database import Database
from registry.db.models.users import Token, User
from registry.errors import Unauthenticated

Credential = TokenCredential | OidcCredential
CredentialKind = Literal["token", "oidc"]


def authenticate(database: Database, credential: Credential) -> Caller:
    """Return the caller that the credential belongs to, in one round trip; otherwise raise Unauthenticated."""
    return _verify(database.fetch_rows(identity_statement(credential.kind), credential.parameters), credential)


def authenticate_in_session(session: Session, credential: Credential) -> Caller:
    """Return the caller that the credential belongs to, within a transaction; otherwise raise Unauthenticated."""
    return _verify(session.execute(identity_statement(credential.kind), dict(credential.parameters)).all(), credential)


@cache
def identity_statement(kind: CredentialKind) -> Select[*tuple[Any, ...]]:  # Any: text, UUID and role
    """Return the statement that finds the user of a credential, as columns `stored_value`, `id` and `role`.

    Its bind parameters are the credential's `parameters`. It yields at most one row, which counts only if the
    credential matches `stored_value`. Expiry is compared with the database's clock each time.
    """
    if kind == "token":
        tokens = select(Token.hash.label("stored_value"), User.id, User.role).join(User, User.id == Token.user_id)
        is_alive = or_(Token.expires_at.is_(None), Token.expires_at > now())
        return tokens.where(Token.prefix == bindparam("prefix"), is_alive)
    return select(User.subject.label("stored_value"), User.id, User.role).where(
        User.issuer == bindparam("issuer"),
        User.subject == bindparam("subject"),
        bindparam("expires_at", type_=UtcDateTime()) > now(),
    )


def _verify(rows: Sequence[Row[Any]], credential: Credential) -> Caller:  # Any: the columns of `identity_statement`
    if not rows or not credential.matches(rows[0].stored_value):
        raise Unauthenticated
    return Caller(rows[0].id, cast(Role, rows[0].role))
