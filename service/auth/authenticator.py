"""From the text that a request carries to a proof: a token of ours, or a JWT of the issuer that the settings name."""

from registry.access.credentials import Proof
from registry.access.tokens import START, proof_of
from service.auth.oidc import OidcIssuer


class Authenticator:
    """Knows both kinds of text apart; without an issuer there is only one."""

    def __init__(self, issuer: OidcIssuer | None) -> None:
        self._issuer = issuer

    async def verify(self, text: str) -> Proof:
        """The proof in the text, which SQL has yet to confirm; Unauthenticated for one that proves nothing."""
        if self._issuer is None or text.startswith(START):
            return proof_of(text)
        return await self._issuer.verify(text)
