"""A device that holds a quarter of the prompts, over one that holds all: `python -m bench.cache [--json] [--quick]`.

Users ask by Zipf's law, with two prompts that are mostly theirs alone and three that are popular by the same law.
The engine alone is asked, without HTTP and without rights, and it reads its prompts from a real folder of objects.
"""

import argparse
import asyncio
import random
import sys
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
from alacarte.prompting.prompt.metadata import PromptMetadata
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt
from bench.output import Line, show_tables
from bench.serving.pictures import make_pictures
from bench.serving.stats import percentile, ratio
from registry.access.usable_prompts import TaskConfig, UsablePrompt
from registry.storage.folder import FolderStore
from service.engine.backbone_cache import BackboneCache
from service.engine.compose import compose
from service.engine.engine import Engine
from service.engine.settings import EngineSettings

SHARE = 4  # the small device holds one in so many
LABELS = 100
MEMORY = 5
PROTOTYPES = 20
PATIENCE_SECONDS = 600.0
RESIDENT, ZIPF = "everything resident", "a quarter resident"


@dataclass(frozen=True)
class User:
    """Somebody who asks, and the prompts that they ask with."""

    id: UUID
    prompts: tuple[UsablePrompt, ...]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbone", default="vit_tiny_patch16_224")
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--each", type=int, default=5, help="prompts of a user")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law, for users and for prompts")
    parser.add_argument("--requests", type=int, default=250, help="of each engine's turn")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=8, help="requests that are under way at once")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a fifth of the users and prompts, and two short rounds")
    options = parser.parse_args()
    if options.quick:  # but for what is asked for
        parser.set_defaults(users=200, prompts=400, requests=60, rounds=2)
        options = parser.parse_args()
    asyncio.run(run(options))


async def run(options: argparse.Namespace) -> None:
    """Both engines in turns over the same requests."""
    backbone = build_backbone(options.backbone, "random", log=lambda _: None)
    pictures = make_pictures()
    with tempfile.TemporaryDirectory() as folder:
        store = FolderStore(Path(folder) / "objects")
        store.prepare()
        tell(f"writing {options.prompts} prompts")
        prompts = put_prompts(store, backbone, options.prompts)
        users = draw_users(prompts, options.users, options.each, options.exponent)
        requests = draw_requests(users, options.requests * (options.rounds + 1), options.exponent)
        whole_bytes = budget_bytes(backbone, prompts)
        budgets = {RESIDENT: whole_bytes, ZIPF: whole_bytes // SHARE}
        async with AsyncExitStack() as stack:
            engines = {
                name: await stack.enter_async_context(new_engine(backbone, store, budget))
                for name, budget in budgets.items()
            }
            task = task_of(backbone)
            await ask(engines[RESIDENT], task, pictures, users, options.concurrency)  # until everything is there
            seconds: dict[str, list[list[float]]] = {name: [] for name in engines}
            since = dict.fromkeys(engines, (0, 0))
            for number in range(options.rounds + 1):
                tell(f"round {number} of {options.rounds}")
                part = requests[number * options.requests : (number + 1) * options.requests]
                for name, engine in engines.items():
                    seconds[name].append(await ask(engine, task, pictures, part, options.concurrency))
                    if number == 0:  # it does not count: the small device has filled up
                        seconds[name].clear()
                        since[name] = (engine.stats().hits, engine.stats().misses)
            lines = [line_of(name, seconds[name], engines[name], since[name], budgets[name]) for name in budgets]
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
        "zipf_over_cached": ratio(p50s[ZIPF], p50s[RESIDENT]),
    }
    show_tables({"the engine, asked by Zipf's law": lines}, summary, options.json)


def tell(what: str) -> None:
    """What happens now, for whoever waits."""
    print(what, file=sys.stderr, flush=True)


def put_prompts(store: FolderStore, backbone: Backbone, count: int) -> list[UsablePrompt]:
    """So many prompts of random numbers, each an artifact in the store."""
    labels = tuple(f"label-{index:03d}" for index in range(LABELS))
    metadata = PromptMetadata(backbone.identity, backbone.architecture, backbone.preprocessing.size, labels, 1, 0, {})
    dice = torch.Generator().manual_seed(0)
    width = backbone.width
    found = []
    for number in range(count):
        tensors = PromptTensors(
            variant="deep",
            token=torch.randn(width, generator=dice) * 0.02,
            memory=torch.randn(backbone.depth, MEMORY, width, generator=dice) * 0.02,
            head_weight=torch.randn(LABELS, width, generator=dice) * 0.02,
            head_bias=torch.zeros(LABELS),
            prototypes=torch.randn(PROTOTYPES, width, generator=dice),
        )
        data = prompt_to_bytes(TrainedPrompt(tensors, metadata))
        own = UUID(int=number + 1)
        prompt = UsablePrompt(own, own, own, 1, prompt_digest(data), len(data))
        store.put(prompt.key, data)
        found.append(prompt)
    return found


def draw_users(prompts: Sequence[UsablePrompt], count: int, each: int, exponent: float) -> list[User]:
    """Users who have every prompt between them: an equal share each, and the rest from the popular ones."""
    chance = random.Random(1)
    share = -(-len(prompts) // count)
    ranked = chance.sample(prompts, len(prompts))
    weights = zipf(len(ranked), exponent)
    users = []
    for number in range(count):
        own = {prompt.id: prompt for prompt in prompts[number * share : (number + 1) * share]}
        while len(own) < each:
            drawn = chance.choices(ranked, weights)[0]
            own[drawn.id] = drawn
        users.append(User(UUID(int=10**6 + number), tuple(own[key] for key in sorted(own))))
    return users


def draw_requests(users: Sequence[User], count: int, exponent: float) -> list[User]:
    """Who asks, one after the other: few do so often, many now and then."""
    return random.Random(2).choices(users, zipf(len(users), exponent), k=count)


def zipf(count: int, exponent: float) -> list[float]:
    """The weight of each rank."""
    return [1 / rank**exponent for rank in range(1, count + 1)]


def budget_bytes(backbone: Backbone, prompts: Sequence[UsablePrompt]) -> int:
    """What it takes to hold all of them: half of a budget is for slots, half for heads and prototypes."""
    slots = len(prompts) * PromptSlots.bytes_each(backbone, MEMORY)
    beside = len(prompts) * 4 * (LABELS * (backbone.width + 1) + PROTOTYPES * backbone.width)
    return 2 * max(slots, beside)


def new_engine(backbone: Backbone, store: FolderStore, prompt_bytes: int) -> Engine:
    """An engine with so many bytes for prompts, which reads them from the store and checks them in full."""
    settings = EngineSettings(prompt_bytes=prompt_bytes)
    backbones = BackboneCache(settings, lambda *_: backbone)
    return Engine(backbones, lambda prompt: store.read(prompt.key, prompt.digest), settings)


def task_of(backbone: Backbone) -> TaskConfig:
    """The task of all prompts."""
    return TaskConfig(UUID(int=1), "bench", backbone.architecture, None, backbone.identity, "average", "none", None)


async def ask(
    engine: Engine, task: TaskConfig, pictures: Sequence[bytes], requests: Sequence[User], concurrency: int
) -> list[float]:
    """The seconds of each request, with so many under way all the time."""
    left = iter(enumerate(requests))
    seconds = []

    async def keep_asking() -> None:
        for number, user in left:
            began = time.monotonic()
            deadline = began + PATIENCE_SECONDS
            picture = pictures[number % len(pictures)]
            logits = await engine.run(task, [picture], user.prompts, user=user.id, deadline=deadline)
            await asyncio.to_thread(compose, user.prompts, logits, "average", "none")
            seconds.append(time.monotonic() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(keep_asking())
    return seconds


def line_of(name: str, rounds: Sequence[Sequence[float]], engine: Engine, since: tuple[int, int], budget: int) -> Line:
    """The line of the table for one engine; hits and misses since the rounds that count began."""
    facts = engine.stats()
    hits, misses = facts.hits - since[0], facts.misses - since[1]
    seconds = [one for done in rounds for one in done]
    return {
        "engine": name,
        "budget_mb": budget / 2**20,
        "resident": facts.cached_prompts,
        "hit_share": hits / (hits + misses),
        "p50_ms": percentile(seconds, 50) * 1000,
        "p99_ms": percentile(seconds, 99) * 1000,
    }


if __name__ == "__main__":
    main()
