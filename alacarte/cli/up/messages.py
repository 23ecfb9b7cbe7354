"""The text that `alacarte up` prints: example commands that can be pasted into a shell."""

import shlex
from pathlib import Path
from uuid import UUID

from alacarte.cli.errors import CommandError
from alacarte.cli.up.demo import ASKS_AGAIN, FORGOTTEN, GRANTS, TASK, Demo, TestPicture
from alacarte.client import Client, ClientError, Prediction

ADMIN = "admin"  # the name of the first admin
MAX_CANDIDATES = 20  # test pictures among which an example is chosen


def admin_lines(token: str) -> list[str]:
    """Return the line with the first admin's token, which is shown only once."""
    return [f"The admin's token, shown this once: {token}"]


def demo_lines(url: str, demo: Demo, admin_token: str | None, how_to_token: str) -> list[str]:
    """Return the commands of the demo: two users predict, one source is forgotten, and the receipt is fetched."""
    picture, answers = _find_example(url, demo)
    lines = ["", f"A picture of a {picture.label}, and the answers to two users who may use different sources:"]
    for user, token in demo.tokens.items():
        answer = f"{answers[user].label} ({100 * answers[user].score:.0f} %)"
        sources = " and ".join(GRANTS[user])
        lines += ["", f"# {user}, with sources {sources}: {answer}", predict_line(url, token, picture.path)]
    if admin_token is None:
        lines += ["", f"# with an admin token in TOKEN; to issue a new one: {how_to_token}"]
    admin = admin_token or "$TOKEN"
    return [
        *lines,
        "",
        f"# forget {FORGOTTEN}: no later answer uses it; then ask again as {ASKS_AGAIN}",
        forget_line(url, admin, demo.sources[FORGOTTEN]),
        "",
        "# the steps of the erasure and its signed receipt",
        erasures_line(url, admin),
        "",
    ]


def again_lines(url: str, how_to_token: str) -> list[str]:
    """Return what to do next when the registry existed before."""
    return [
        f"The registry from before is served at {url}.",
        f"Tokens are shown only once; to issue a new one: {how_to_token}",
    ]


def how_to_token(home: Path | None) -> str:
    """Return the command that issues an admin token in this home."""
    where = "" if home is None else f"ALACARTE_HOME={shlex.quote(str(home))} "
    return f"{where}alacarte token issue {ADMIN}"


def predict_line(url: str, token: str, picture: Path) -> str:
    """Return the command that predicts a picture."""
    # Quoted for curl too, so that it reads no character of the path as syntax.
    inner = str(picture).replace("\\", "\\\\").replace('"', '\\"')
    image = shlex.quote(f'image=@"{inner}"')
    return f"curl -s {_bearer(token)} -F {image} -F task={TASK} {url}/predict"


def forget_line(url: str, token: str, source: UUID) -> str:
    """Return the command that forgets a source."""
    return f"curl -s -X DELETE {_bearer(token)} {url}/sources/{source}"


def erasures_line(url: str, token: str) -> str:
    """Return the command that lists erasures."""
    return f"curl -s {_bearer(token)} {url}/erasures"


def _bearer(token: str) -> str:
    return f'-H "Authorization: Bearer {token}"'  # double quotes, so that $TOKEN is expanded


def _find_example(url: str, demo: Demo) -> tuple[TestPicture, dict[str, Prediction]]:
    """Return the test picture that most users label right; of the digits that only the forgotten source teaches eva."""
    candidates = [picture for picture in demo.pictures if picture.label in "56789"][:MAX_CANDIDATES]
    answers: dict[str, list[Prediction]] = {}
    try:
        for user, token in demo.tokens.items():
            with Client(url, token) as client:
                answers[user] = client.predict_many([picture.path for picture in candidates], task=TASK, top_k=1)
    except ClientError as error:
        raise CommandError(f"the demo cannot be shown; the next start tries again: {error}") from error
    correct = [
        sum(answers[user][index].label == picture.label for user in answers) for index, picture in enumerate(candidates)
    ]
    best = correct.index(max(correct))
    return candidates[best], {user: found[best] for user, found in answers.items()}
