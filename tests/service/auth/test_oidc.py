"""A valid JWT proves a subject, a forged one is refused, and SQL alone has the subject's user and rights."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.servers.processes import wait_until
from tests.service.auth.issuer_fixture import AUDIENCE, LocalIssuer, by_hand, jwk_of, new_key, run_issuer
from tests.service.conftest import MakeDeployment
from tests.service.deployment import GARBAGE, Deployment
from tests.service.prediction.fixtures import after_each_read

KEYS = {"rsa": "RS256", "ec": "ES256", "another ec": "ES256", "ed": "EdDSA"}
SUBJECT = "subject-of-user"


@pytest.fixture(scope="module")
def issuer() -> Iterator[LocalIssuer]:
    with run_issuer() as made:
        for kid, algorithm in KEYS.items():
            made.add_key(kid, algorithm)
        yield made


@pytest.fixture(scope="module")
def trusting(issuer: LocalIssuer, make_deployment: MakeDeployment) -> Deployment:
    return trust(make_deployment, issuer, oidc_refresh_s=1, oidc_leeway_s=0)


def trust(make_deployment: MakeDeployment, issuer: LocalIssuer, **settings: Any) -> Deployment:
    """Return a deployment that accepts the issuer's JWTs, with a subject for its user."""
    deployment = make_deployment(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, **settings)
    path, binding = f"/users/{deployment.users['user']}/subject", {"subject": SUBJECT}
    answer = deployment.request("admin", "PUT", path, json=binding)
    assert answer.status_code == 200, answer.text
    return deployment


def status(deployment: Deployment, text: str, path: str = "/users/me") -> int:
    return deployment.request(text, "GET", path).status_code


@pytest.mark.parametrize("kid", KEYS)
def test_a_bound_subject_is_its_user(kid: str, issuer: LocalIssuer, trusting: Deployment) -> None:
    text = issuer.sign(issuer.claims(SUBJECT), kid)

    assert trusting.request(text, "GET", "/users/me").json()["id"] == str(trusting.users["user"])
    assert trusting.predict(text).json()["sources"] == [str(trusting.source)]


def test_several_audiences_and_the_type_of_access_tokens_are_accepted(
    issuer: LocalIssuer, trusting: Deployment
) -> None:
    several = issuer.sign(issuer.claims(SUBJECT, aud=["other", AUDIENCE]), "rsa", typ="at+jwt")

    assert status(trusting, several) == 200


def test_our_own_tokens_stay_valid(trusting: Deployment) -> None:
    assert status(trusting, "user") == 200
    assert status(trusting, GARBAGE) == 401


Forge = Callable[[LocalIssuer], str]
PAST, FUTURE = -36_000, 36_000  # hours, because the forgeries are described when the module is imported


def _pem(issuer: LocalIssuer) -> bytes:
    return issuer.keys["rsa"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _in(seconds: int) -> int:
    return int(time.time()) + seconds


def _claimed(**changed: Any) -> Forge:
    return lambda issuer: issuer.sign(issuer.claims(SUBJECT, **changed), "rsa")


def _headed(by: str = "rsa", **headers: Any) -> Forge:
    return lambda issuer: issuer.sign(issuer.claims(SUBJECT), by, **headers)


def _hmac_signed(algorithm: str, secret: Callable[[LocalIssuer], bytes]) -> Forge:
    return lambda issuer: by_hand({"alg": algorithm, "kid": "rsa"}, issuer.claims(SUBJECT), secret(issuer))


def _with_own_key(issuer: LocalIssuer) -> str:
    own = new_key("RS256")
    return issuer.sign(issuer.claims(SUBJECT), "rsa", own, jwk=jwk_of(own, "rsa"), jku=f"{issuer.url}/mine")


def _with_other_signature(issuer: LocalIssuer) -> str:
    head, _, signature = issuer.sign(issuer.claims("nobody"), "rsa").split(".")
    return f"{head}.{issuer.sign(issuer.claims(SUBJECT), 'rsa').split('.')[1]}.{signature}"


FORGERIES: dict[str, Forge] = {
    "expired": _claimed(iat=_in(PAST), exp=_in(-1)),
    "never expiring": _claimed(exp=None),
    "expiring at no time": _claimed(exp="soon"),
    "not yet valid": _claimed(nbf=_in(FUTURE)),
    "issued tomorrow": _claimed(iat=_in(FUTURE)),
    "for another audience": _claimed(aud="somebody-else"),
    "for nobody": _claimed(aud=None),
    "for a list of others": _claimed(aud=["a", "b"]),
    "of another issuer": _claimed(iss="https://evil.example"),
    "of an issuer whose name begins alike": lambda issuer: _claimed(iss=f"{issuer.url}/")(issuer),
    "of no issuer": _claimed(iss=None),
    "of no subject": _claimed(sub=None),
    "of an empty subject": _claimed(sub=""),
    "of an endless subject": _claimed(sub="s" * 256),
    "of a subject with a NUL": _claimed(sub="a\0b"),
    "of a subject that no encoding has": _claimed(sub="\ud800"),
    "of a subject nobody is bound to": _claimed(sub="a stranger"),
    "of a subject in other letters": _claimed(sub=SUBJECT.upper()),
    "of a user's name": _claimed(sub="user"),
    "signed by nobody": lambda issuer: by_hand({"alg": "none", "kid": "rsa"}, issuer.claims(SUBJECT), None),
    "signed by nobody, in capitals": lambda issuer: by_hand({"alg": "NONE"}, issuer.claims(SUBJECT), b""),
    "signed by the public key as a secret": _hmac_signed("HS256", _pem),
    "signed by an algorithm that is not allowed": _hmac_signed("RS512", lambda _: b"x"),
    "signed by another key of that name": _headed(key=new_key("RS256")),
    "signed by a key that it brings along": _with_own_key,
    "signed by one key and named for another": _headed(kid="ec"),
    "of an unknown key": _headed(kid="unknown"),
    "of a key without a name, where there are several": _headed("ec", kid=None),
    "with a critical extension": _headed(crit=["exp"], exp=1),
    "with an empty critical extension": lambda _: by_hand({"alg": "RS256", "crit": []}, {}, b"x"),
    "for another purpose": _headed(typ="logout+jwt"),
    "with another's signature": _with_other_signature,
    "huge": _claimed(more="x" * 10_000),
    "nothing but dots": lambda _: "..",
    "three letters": lambda _: "a.b.c",
    "no JSON": lambda _: "eyJ.eyJ.eyJ",
    "deeply nested": lambda _: by_hand({"alg": "RS256", "kid": "rsa"}, {}, b"x").replace("eyJ", "W1tb" * 900, 1),
    "encrypted": lambda _: "eyJhbGciOiJSU0EtT0FFUCJ9.a.b.c.d",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_jwt_is_refused_like_any_wrong_token(forgery: str, issuer: LocalIssuer, trusting: Deployment) -> None:
    text = FORGERIES[forgery](issuer)

    answer, wrong = (trusting.request(each, "GET", "/users/me") for each in (text, GARBAGE))

    assert answer.status_code == wrong.status_code == 401
    assert answer.headers["www-authenticate"] == wrong.headers["www-authenticate"]
    assert {**answer.json(), "request_id": ""} == {**wrong.json(), "request_id": ""}


def test_no_claim_makes_an_admin(issuer: LocalIssuer, trusting: Deployment) -> None:
    claims = issuer.claims(SUBJECT, role="admin", roles=["admin"], scope="admin", groups=["admin"], is_admin=True)

    text = issuer.sign(claims, "rsa")

    assert trusting.request(text, "GET", "/users/me").json()["role"] == "predictor"
    assert trusting.request(text, "POST", "/users", json={"name": "mallory"}).status_code == 403


@pytest.mark.parametrize("path", ["/users/{}/subject", "/users/{}"])
def test_an_unbound_or_removed_user_is_refused_at_once_though_the_jwt_is_valid(
    path: str, issuer: LocalIssuer, trusting: Deployment
) -> None:
    subject, user = str(uuid4()), trusting.add_user()
    text = issuer.sign(issuer.claims(subject), "ed")
    trusting.request("admin", "PUT", f"/users/{user}/subject", json={"subject": subject})
    assert status(trusting, text) == 200

    assert trusting.request("admin", "DELETE", path.format(user)).status_code == 204

    assert status(trusting, text) == 401


def test_the_same_subject_of_another_issuer_is_another_user(issuer: LocalIssuer, trusting: Deployment) -> None:
    subject = str(uuid4())
    binding = {"subject": subject, "issuer": "https://other.example"}
    trusting.request("admin", "PUT", f"/users/{trusting.add_user()}/subject", json=binding)

    assert status(trusting, issuer.sign(issuer.claims(subject), "rsa")) == 401


def test_a_jwt_that_expires_in_flight_gets_no_answer(
    issuer: LocalIssuer, trusting: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    expires_at = _in(2)
    text = issuer.sign(issuer.claims(SUBJECT, exp=expires_at), "rsa")
    # Valid at the first read, expired at the recheck.
    reads = after_each_read(monkeypatch, lambda: wait_until(lambda: time.time() > expires_at + 0.1))

    assert trusting.predict(text).status_code == 401
    assert len(reads) == 1


def test_a_new_key_is_accepted_beside_the_old_one(issuer: LocalIssuer, trusting: Deployment) -> None:
    before = issuer.sign(issuer.claims(SUBJECT), "rsa")
    assert status(trusting, before) == 200

    issuer.add_key("newer", "ES256")
    after = issuer.sign(issuer.claims(SUBJECT), "newer")

    wait_until(lambda: status(trusting, after) == 200)
    assert status(trusting, before) == 200


def test_a_flood_of_unknown_keys_does_not_cause_a_flood_of_fetches(
    issuer: LocalIssuer, make_deployment: MakeDeployment
) -> None:
    deployment = trust(make_deployment, issuer, oidc_refresh_s=3600)
    assert status(deployment, issuer.sign(issuer.claims(SUBJECT), "rsa")) == 200
    requests = len(issuer.requests)

    flood = [issuer.sign(issuer.claims(SUBJECT), "ed", kid=str(uuid4())) for _ in range(50)]

    assert {status(deployment, text) for text in flood} == {401}
    assert len(issuer.requests) == requests


def test_keys_stay_while_the_issuer_is_down_and_without_keys_no_jwt_is_accepted(
    make_deployment: MakeDeployment,
) -> None:
    with run_issuer() as issuer:
        issuer.add_key("only", "RS256")
        issuer.is_up = False
        deployment = trust(make_deployment, issuer, oidc_refresh_s=1)
        text = issuer.sign(issuer.claims(SUBJECT), "only")

        refused = deployment.request(text, "GET", "/users/me")
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:alacarte:problem:issuer-keys-unavailable"
        assert int(refused.headers["retry-after"]) >= 1
        assert issuer.url not in refused.text
        assert status(deployment, "user") == 200

        issuer.is_up = True
        wait_until(lambda: status(deployment, text) == 200)
        issuer.is_up = False
        unknown = issuer.sign(issuer.claims(SUBJECT), "only", kid="unknown")
        requests = len(issuer.requests)
        wait_until(lambda: status(deployment, unknown) == 401 and len(issuer.requests) > requests)
        assert status(deployment, text) == 200


def test_keys_from_a_file_need_no_request(make_deployment: MakeDeployment, tmp_path: Path) -> None:
    with run_issuer() as issuer:
        issuer.add_key("only", "EdDSA")
        file = tmp_path / "keys.json"
        file.write_bytes(issuer.key_set())
        deployment = trust(make_deployment, issuer, oidc_keys=str(file))

        nameless = issuer.sign(issuer.claims(SUBJECT), "only", kid=None)
        assert status(deployment, nameless) == 200
        assert issuer.requests == []


def test_without_an_issuer_no_jwt_is_accepted(deployment: Deployment, issuer: LocalIssuer) -> None:
    assert status(deployment, issuer.sign(issuer.claims(SUBJECT), "rsa")) == 401
    answer = deployment.request("admin", "PUT", f"/users/{deployment.users['user']}/subject", json={"subject": "s"})
    assert answer.status_code == 422
    assert "ALACARTE_OIDC_ISSUER" in answer.json()["detail"]
