"""Parse the bearer text of a request into a credential: a token of ours, or a JWT of the configured issuer."""

from registry.access.credentials import Credential
from registry.access.tokens import TOKEN_START, parse_token
from service.auth.oidc import OidcIssuer


class Authenticator:
    """Knows both kinds of text apart; without an issuer there is only one."""

    def __init__(self, issuer: OidcIssuer | None) -> None:
        self._issuer = issuer

    async def verify(self, text: str) -> Credential:
        """The credential in the text, which SQL has yet to confirm; Unauthenticated for one that proves nothing."""
        if self._issuer is None or text.startswith(TOKEN_START):
            return parse_token(text)
        return await self._issuer.verify(text)
