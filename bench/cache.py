"""A device that holds a quarter of the prompts, over one that holds all: `python -m bench.cache [--json] [--quick]`.

Requests are distributed over users by Zipf's law. A user has two prompts that are mostly theirs alone, and three that
are popular by the same law.
Requests go to the engine directly, without HTTP and rights; it reads its prompts from a real object folder.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import torch

from alacarte.prompting.attention.prompt_slots import PromptSlots
from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from bench.forward import LABELS, MEMORY, PROTOTYPES, random_prompts
from bench.output import TableRow, log, print_tables
from bench.serving.fixtures import make_pictures
from bench.serving.stats import percentile, ratio
from registry.access.usable_prompts import TaskConfig, UsablePrompt
from registry.storage.folder import FolderStore
from service.engine.backbone_cache import BackboneCache
from service.engine.compose import compose
from service.engine.engine import Engine
from service.engine.settings import EngineSettings

SMALL_DIVISOR = 4  # the small device holds a quarter of the prompts
TIMEOUT_SECONDS = 600.0
ALL, QUARTER = "all prompts cached", "a quarter cached"


@dataclass(frozen=True)
class SimulatedUser:
    """A user and the prompts of their requests."""

    id: UUID
    prompts: tuple[UsablePrompt, ...]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbone", default="vit_tiny_patch16_224")
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--each", type=int, default=5, help="prompts per user")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law, for users and for prompts")
    parser.add_argument("--requests", type=int, default=250, help="per engine and round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=8, help="simultaneous requests")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a fifth of the users and prompts, and two short rounds")
    options = parser.parse_args()
    if options.quick:  # explicit options still apply
        parser.set_defaults(users=200, prompts=400, requests=60, rounds=2)
        options = parser.parse_args()
    asyncio.run(run(options))


async def run(options: argparse.Namespace) -> None:
    """Send the same requests to both engines in turns, and print the results."""
    backbone = build_backbone(options.backbone, "random", log=lambda _: None)
    pictures = make_pictures()
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore(Path(folder) / "objects")
        store.prepare()
        log(f"writing {options.prompts} prompts")
        prompts = store_prompts(store, backbone, options.prompts)
        users = draw_users(prompts, options.users, options.each, options.exponent)
        requests = draw_requests(users, options.requests * (options.rounds + 1), options.exponent)
        whole_bytes = budget_bytes(backbone, prompts)
        budgets = {ALL: whole_bytes, QUARTER: whole_bytes // SMALL_DIVISOR}
        async with AsyncExitStack() as stack:
            engines = {
                name: await stack.enter_async_context(new_engine(backbone, store, budget))
                for name, budget in budgets.items()
            }
            task = make_task(backbone)
            await send_requests(engines[ALL], task, pictures, users, options.concurrency)  # load all prompts
            seconds: dict[str, list[list[float]]] = {name: [] for name in engines}
            since = dict.fromkeys(engines, (0, 0))
            for number in range(options.rounds + 1):
                log(f"round {number} of {options.rounds}")
                part = requests[number * options.requests : (number + 1) * options.requests]
                for name, engine in engines.items():
                    seconds[name].append(await send_requests(engine, task, pictures, part, options.concurrency))
                    if number == 0:  # a warm-up that fills the small device
                        seconds[name].clear()
                        since[name] = (engine.stats().hits, engine.stats().misses)
            rows = [make_row(name, seconds[name], engines[name], since[name], budgets[name]) for name in budgets]
    p50s = {name: [percentile(done, 50) for done in rounds] for name, rounds in seconds.items()}
    summary: dict[str, object] = {
        "backbone": options.backbone,
        "weights": "random",
        "users": options.users,
        "prompts": options.prompts,
        "prompts_each": options.each,
        "exponent": options.exponent,
        "concurrency": options.concurrency,
        "requests": options.requests * options.rounds,
        "torch_threads": torch.get_num_threads(),
        "zipf_over_cached": ratio(p50s[QUARTER], p50s[ALL]),
    }
    print_tables({"engine with Zipf-distributed requests": rows}, summary, options.json)


def store_prompts(store: FolderStore, backbone: Backbone, count: int) -> list[UsablePrompt]:
    """Write artifacts of random prompts to the store."""
    stored = []
    for number, prompt in enumerate(random_prompts(backbone, count), 1):
        data = prompt_to_bytes(prompt)
        identity = UUID(int=number)
        usable = UsablePrompt(identity, identity, identity, 1, prompt_digest(data), len(data))
        store.put(usable.key, data)
        stored.append(usable)
    return stored


def draw_users(prompts: Sequence[UsablePrompt], count: int, each: int, exponent: float) -> list[SimulatedUser]:
    """Draw users who together have every prompt: an equal share each, and the rest from the popular ones."""
    generator = random.Random(1)
    share = -(-len(prompts) // count)
    ranked = generator.sample(prompts, len(prompts))
    weights = zipf_weights(len(ranked), exponent)
    users = []
    for number in range(count):
        own = {prompt.id: prompt for prompt in prompts[number * share : (number + 1) * share]}
        while len(own) < each:
            drawn = generator.choices(ranked, weights)[0]
            own[drawn.id] = drawn
        users.append(SimulatedUser(UUID(int=10**6 + number), tuple(own[key] for key in sorted(own))))
    return users


def draw_requests(users: Sequence[SimulatedUser], count: int, exponent: float) -> list[SimulatedUser]:
    """Draw the user of each request: few users send many requests, many users send few."""
    return random.Random(2).choices(users, zipf_weights(len(users), exponent), k=count)


def zipf_weights(count: int, exponent: float) -> list[float]:
    """Return the weight of each rank."""
    return [1 / rank**exponent for rank in range(1, count + 1)]


def budget_bytes(backbone: Backbone, prompts: Sequence[UsablePrompt]) -> int:
    """Return the bytes to hold all prompts: half of a budget is for slots, half for heads and prototypes."""
    slots = len(prompts) * PromptSlots.bytes_each(backbone, MEMORY)
    head_bytes = len(prompts) * 4 * (LABELS * (backbone.width + 1) + PROTOTYPES * backbone.width)
    return 2 * max(slots, head_bytes)


def new_engine(backbone: Backbone, store: FolderStore, prompt_bytes: int) -> Engine:
    """Create an engine with this budget for prompts, which reads and validates them from the store."""
    settings = EngineSettings(prompt_cache_bytes=prompt_bytes)
    backbones = BackboneCache(settings, lambda *_: backbone)
    return Engine(backbones, lambda prompt: store.read(prompt.key, prompt.digest), settings)


def make_task(backbone: Backbone) -> TaskConfig:
    """Return the task of all prompts."""
    return TaskConfig(UUID(int=1), "bench", backbone.architecture, None, backbone.identity, "average", "none", None)


async def send_requests(
    engine: Engine, task: TaskConfig, pictures: Sequence[bytes], requests: Sequence[SimulatedUser], concurrency: int
) -> list[float]:
    """Send all requests, this many at a time; return the seconds of each."""
    pending = iter(enumerate(requests))
    seconds = []

    async def send_next() -> None:
        for number, user in pending:
            began = time.monotonic()
            deadline = began + TIMEOUT_SECONDS
            picture = pictures[number % len(pictures)]
            logits = await engine.run(task, [picture], user.prompts, user=user.id, deadline=deadline)
            await asyncio.to_thread(compose, user.prompts, logits, "average", "none")
            seconds.append(time.monotonic() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(send_next())
    return seconds


def make_row(
    name: str, rounds: Sequence[Sequence[float]], engine: Engine, since: tuple[int, int], budget: int
) -> TableRow:
    """Return the row of one engine; hits and misses are counted from `since` on."""
    stats = engine.stats()
    hits, misses = stats.hits - since[0], stats.misses - since[1]
    seconds = [one for done in rounds for one in done]
    return {
        "engine": name,
        "budget_mb": budget / 2**20,
        "resident": stats.cached_prompts,
        "hit_share": hits / (hits + misses),
        "p50_ms": percentile(seconds, 50) * 1000,
        "p99_ms": percentile(seconds, 99) * 1000,
    }


if __name__ == "__main__":
    main()
