"""Prometheus metrics, in a registry that contains only these."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.engine.stats import BatchStats, EngineStats

SHORT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LONG_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 86400)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "alacarte_request_seconds",
            "Time from the first byte of a request to the last of its response.",
            ["method", "route", "status"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.rights_seconds = Histogram(
            "alacarte_rights_seconds",
            "Time to read a caller's rights: initially, and again just before the response is sent.",
            ["phase"],
            buckets=SHORT_SECONDS,
            registry=self.registry,
        )
        self.erasure_seconds = Histogram(
            "alacarte_erasure_seconds",
            "Time from an erasure's request at this replica to its receipt.",
            buckets=LONG_SECONDS,
            registry=self.registry,
        )
        self._queue_seconds = self._histogram("queue_seconds", "Time from a picture's admission to its pass.", SECONDS)
        self._compute_seconds = self._histogram("compute_seconds", "Time of one pass of the backbone.", SECONDS)
        self._batch_pictures = self._histogram("batch_pictures", "Pictures in one pass.", COUNTS)
        self._batch_pairs = self._histogram("batch_pairs", "Pairs of a picture and a prompt in one pass.", COUNTS)

    def observe_batch(self, batch: BatchStats) -> None:
        """Record a pass; may be called from any thread."""
        self._batch_pictures.observe(batch.pictures)
        self._batch_pairs.observe(batch.pairs)
        self._compute_seconds.observe(batch.seconds)
        for seconds in batch.queue_seconds:
            self._queue_seconds.observe(seconds)

    def watch_engine(self, stats: Callable[[], EngineStats]) -> None:
        """Read the engine's stats whenever the metrics are scraped."""
        self.registry.register(_EngineCollector(stats))

    def _histogram(self, name: str, description: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"alacarte_{name}", description, buckets=buckets, registry=self.registry)


class _EngineCollector(Collector):
    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        gauges = {
            "waiting_pictures": ("Pictures in the queue.", stats.waiting_pictures),
            "active_pictures": ("Pictures that are being decoded or computed.", stats.active_pictures),
            "backbones": ("Backbones in memory.", stats.backbones),
            "cached_prompts": ("Prompts in the cache.", stats.cached_prompts),
            "cached_prompt_bytes": ("The size of those prompts.", stats.cached_prompt_bytes),
        }
        counters = {
            "prompt_cache_hits": ("Requested prompts that were in the cache.", stats.hits),
            "prompt_cache_misses": ("Requested prompts that had to be loaded.", stats.misses),
            "failed_pictures": ("Pictures that the device failed on.", stats.failures),
        }
        for name, (description, value) in gauges.items():
            yield GaugeMetricFamily(f"alacarte_{name}", description, value=value)
        for name, (description, value) in counters.items():
            yield CounterMetricFamily(f"alacarte_{name}", description, value=value)
