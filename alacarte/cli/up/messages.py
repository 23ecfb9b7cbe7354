"""What a person is told once all is up: lines that can be pasted into a shell as they are."""

import shlex
from pathlib import Path
from uuid import UUID

from alacarte.cli.actions.digits import TestPicture
from alacarte.cli.errors import CommandRefused
from alacarte.cli.up.bootstrap import ADMIN
from alacarte.cli.up.digits_demo import ASKS_AGAIN, FORGOTTEN, GRANTS, TASK, Demo
from alacarte.client import Client, ClientError, Prediction

TRIED = 20  # pictures that are looked at for one that shows something


def admin_lines(token: str) -> list[str]:
    """The first admin's token, for the only time."""
    return [f"The admin's token, shown this once: {token}"]


def demo_lines(url: str, demo: Demo, admin_token: str | None, how_to_token: str) -> list[str]:
    """The demo as a story of calls: two people ask, one source is forgotten, and the proof."""
    picture, answers = _telling_picture(url, demo)
    lines = ["", f"A picture of a {picture.label}, and what two people are told who may use other sources:"]
    for person, token in demo.tokens.items():
        said = f"{answers[person].label} ({100 * answers[person].score:.0f} %)"
        lines += ["", f"# {person}, by {' and '.join(GRANTS[person])}: {said}", predict_line(url, token, picture.path)]
    if admin_token is None:
        lines += ["", f"# with a token of an admin in TOKEN; for a new one: {how_to_token}"]
    admin = admin_token or "$TOKEN"
    return [
        *lines,
        "",
        f"# forget {FORGOTTEN}: from this answer on, nobody is told anything by it; ask again as {ASKS_AGAIN}",
        forget_line(url, admin, demo.sources[FORGOTTEN]),
        "",
        "# what was removed, step by step, and the signed receipt",
        erasures_line(url, admin),
        "",
    ]


def again_lines(url: str, how_to_token: str) -> list[str]:
    """How to go on where everything was found again."""
    return [
        f"Everything is as it was, at {url}.",
        f"Tokens are shown once, when they are made; for a new one: {how_to_token}",
    ]


def how_to_token(home: Path | None) -> str:
    """The command that makes a token in this home, for an admin, and for anybody else likewise."""
    where = "" if home is None else f"ALACARTE_HOME={shlex.quote(str(home))} "
    return f"{where}alacarte token issue {ADMIN}"


def predict_line(url: str, token: str, picture: Path) -> str:
    """Asks for the labels of a picture."""
    # In quotes of curl's own, so that no character of the path means something to it.
    inner = str(picture).replace("\\", "\\\\").replace('"', '\\"')
    image = shlex.quote(f'image=@"{inner}"')
    return f"curl -s {_bearer(token)} -F {image} -F task={TASK} {url}/predict"


def forget_line(url: str, token: str, source: UUID) -> str:
    """Has a source forgotten."""
    return f"curl -s -X DELETE {_bearer(token)} {url}/sources/{source}"


def erasures_line(url: str, token: str) -> str:
    """Shows what was forgotten."""
    return f"curl -s {_bearer(token)} {url}/erasures"


def _bearer(token: str) -> str:
    return f'-H "Authorization: Bearer {token}"'  # double quotes: a variable stays one


def _telling_picture(url: str, demo: Demo) -> tuple[TestPicture, dict[str, Prediction]]:
    """A picture that everybody labels right and that only the source to be forgotten knew for one of them."""
    known = [picture for picture in demo.pictures if picture.label in "56789"][:TRIED]
    answers: dict[str, list[Prediction]] = {}
    try:
        for person, token in demo.tokens.items():
            with Client(url, token) as client:
                answers[person] = client.predict_many([picture.path for picture in known], task=TASK, top_k=1)
    except ClientError as error:
        raise CommandRefused(f"the demo cannot be shown, and comes with the next start: {error}") from error
    rights = [
        sum(answers[person][place].label == picture.label for person in answers) for place, picture in enumerate(known)
    ]
    best = rights.index(max(rights))
    return known[best], {person: found[best] for person, found in answers.items()}
