"""The simulated users and requests of the cache benchmark."""

from uuid import UUID

from bench.cache import draw_requests, draw_users
from registry.access.usable_prompts import UsablePrompt

PROMPTS = [UsablePrompt(UUID(int=n), UUID(int=n), UUID(int=n), 1, f"{n:064x}", 100) for n in range(1, 201)]


def test_every_prompt_has_a_user_and_no_user_has_one_twice() -> None:
    users = draw_users(PROMPTS, 100, each=5, exponent=1.0)

    assert {prompt for user in users for prompt in user.prompts} == set(PROMPTS)
    assert all(len(set(user.prompts)) == len(user.prompts) == 5 for user in users)
    assert len({user.id for user in users}) == 100


def test_the_first_users_send_most_requests() -> None:
    users = draw_users(PROMPTS, 100, each=5, exponent=1.0)
    requests = draw_requests(users, 10_000, exponent=1.0)

    counts = [requests.count(user) for user in (users[0], users[9], users[99])]

    assert counts[0] > 5 * counts[1] > 0
    assert counts[1] > 5 * counts[2] > 0
