"""The calls of the client on users, tokens, grants and quotas, carried out on the registry of this machine."""

from datetime import timedelta
from uuid import UUID

from alacarte.api.literals import Right, Role
from alacarte.api.users import (
    GrantResponse,
    IssuedTokenResponse,
    QuotaResponse,
    TokenResponse,
    UserResponse,
)
from alacarte.cli.errors import CommandError
from alacarte.cli.local.registry import NameOrId, RegistryAccess
from registry.access import grants, oidc_subjects, quotas, tokens, users
from registry.access.caller import OPERATOR


class LocalAccess(RegistryAccess):
    """Users, tokens, grants and quotas."""

    def list_users(self) -> list[UserResponse]:
        """Return all users and groups."""
        return self._list(UserResponse, lambda session, after: users.list_users(session, OPERATOR, after))

    def get_user(self, user: NameOrId) -> UserResponse:
        """Return the user or group with this name or id."""
        return self._read(lambda session: UserResponse.model_validate(users.find_user(session, OPERATOR, user)))

    def list_groups(self, user: NameOrId) -> list[UserResponse]:
        """Return the groups of a user."""
        user_id = self.get_user(user).id
        return self._list(UserResponse, lambda session, after: users.list_groups(session, OPERATOR, user_id, after))

    def list_members(self, group: NameOrId) -> list[UserResponse]:
        """Return the members of a group."""
        group_id = self.get_user(group).id
        return self._list(UserResponse, lambda session, after: users.list_members(session, OPERATOR, group_id, after))

    def create_user(self, name: str, role: Role = "predictor", *, is_group: bool = False) -> UserResponse:
        """Create a user or a group."""
        with self._registry.database.write_transaction() as session:
            return UserResponse.model_validate(users.create_user(session, OPERATOR, name, role, is_group=is_group))

    def delete_user(self, user: NameOrId) -> None:
        """Remove a user with their tokens and grants; their sources stay, without an owner."""
        self._write(lambda session: users.remove_user(session, OPERATOR, self._user_id(session, user)))

    def add_member(self, group: NameOrId, user: NameOrId) -> None:
        """Add a user to a group."""
        group_id, user_id = self.get_user(group).id, self.get_user(user).id
        self._write(lambda session: users.add_member(session, OPERATOR, group_id, user_id))

    def remove_member(self, group: NameOrId, user: NameOrId) -> None:
        """Remove a user from a group."""
        group_id, user_id = self.get_user(group).id, self.get_user(user).id
        self._write(lambda session: users.remove_member(session, OPERATOR, group_id, user_id))

    def bind_subject(self, user: NameOrId, subject: str, issuer: str | None = None) -> UserResponse:
        """Accept JWTs of an issuer's subject as this user; the default issuer is that of the service's settings."""
        from service.settings import read_service_settings

        issuer = issuer or read_service_settings().oidc_issuer
        if issuer is None:
            raise CommandError("no issuer is configured: give one with --issuer URL or ALACARTE_OIDC_ISSUER")
        with self._registry.database.write_transaction() as session:
            user_id = self._user_id(session, user)
            return UserResponse.model_validate(oidc_subjects.bind_subject(session, OPERATOR, user_id, issuer, subject))

    def unbind_subject(self, user: NameOrId) -> None:
        """Stop accepting JWTs of the user's subject."""
        self._write(lambda session: oidc_subjects.unbind_subject(session, OPERATOR, self._user_id(session, user)))

    def get_quota(self, user: NameOrId) -> QuotaResponse:
        """Return how much a user stores and may store."""
        with self._registry.database.read_transaction() as session:
            user_id, default_bytes = self._user_id(session, user), self._registry.default_quota_bytes
            return QuotaResponse.model_validate(quotas.read_quota(session, OPERATOR, user_id, default_bytes))

    def set_quota(self, user: NameOrId, quota_bytes: int | None) -> QuotaResponse:
        """Set how much a user may store; None for the default."""
        self._write(lambda session: quotas.set_quota(session, OPERATOR, self._user_id(session, user), quota_bytes))
        return self.get_quota(user)

    def list_tokens(self, user: NameOrId | None = None) -> list[TokenResponse]:
        """Return the tokens of a user, or all."""
        user_id = None if user is None else self.get_user(user).id
        return self._list(TokenResponse, lambda session, after: tokens.list_tokens(session, OPERATOR, user_id, after))

    def create_token(
        self, user: NameOrId | None = None, *, note: str = "", lifetime_s: float | None = None
    ) -> IssuedTokenResponse:
        """Issue a token to a user; its text is shown only once."""
        if user is None:
            raise CommandError("name the user of the token: on this machine you have no user of your own")
        lifetime = None if lifetime_s is None else timedelta(seconds=lifetime_s)
        with self._registry.database.write_transaction() as session:
            user_id = self._user_id(session, user)
            issued = tokens.issue_token(session, OPERATOR, user_id, note=note, lifetime=lifetime)
            return IssuedTokenResponse(**TokenResponse.model_validate(issued.token).model_dump(), text=issued.text)

    def revoke_token(self, token_id: NameOrId) -> None:
        """Revoke a token at once."""
        self._write(lambda session: tokens.revoke_token(session, OPERATOR, UUID(str(token_id))))

    def list_grants(self, source: NameOrId | None = None, user: NameOrId | None = None) -> list[GrantResponse]:
        """Return the grants to a source, of a user, or all."""
        source_id = None if source is None else self._read(lambda session: self._source_id(session, source))
        user_id = None if user is None else self.get_user(user).id
        return self._list(
            GrantResponse, lambda session, after: grants.list_grants(session, OPERATOR, source_id, user_id, after)
        )

    def create_grant(self, user: NameOrId, source: NameOrId, right: Right = "use") -> GrantResponse:
        """Grant a right to a user or group."""
        with self._registry.database.write_transaction() as session:
            user_id, source_id = self._user_id(session, user), self._source_id(session, source)
            return GrantResponse.model_validate(grants.grant_right(session, OPERATOR, user_id, source_id, right))

    def revoke_grant(self, user: NameOrId, source: NameOrId, right: Right = "use") -> None:
        """Revoke a right at once."""
        with self._registry.database.write_transaction() as session:
            user_id, source_id = self._user_id(session, user), self._source_id(session, source)
            grants.revoke_right(session, OPERATOR, user_id, source_id, right)
