"""Process tuning takes effect, and leaves what the operator has set and files for everything but connections."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from service.process_tuning import SPIN_COUNT, limit_kernel_cache, limit_openmp_spinning

ROOT = Path(__file__).parents[2]
CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
SPINNING, WAITING = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
COUNT_PAGE_FAULTS = """
import ctypes, resource, sys
if sys.argv[1] == "retained":
    from service.process_tuning import retain_freed_memory
    assert retain_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.memset.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def use():
    block = libc.malloc(24 * 2**20)
    libc.memset(block, 1, 24 * 2**20)
    libc.free(block)
libc.mallopt(-3, 1 << 20) if sys.argv[1] == "default" else None  # before glibc adapts its threshold
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


PRINT_LIMITS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from service.process_tuning import raise_file_limit
from service.server import make_server
from service.settings import ServiceSettings
raise_file_limit(1000)
server = make_server(None, ServiceSettings(max_connections=1000))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], server.config.http.keywords["limit"].max_connections)
"""


def run_python(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment})


def count_page_faults(allocation: str) -> int:
    process = run_python(COUNT_PAGE_FAULTS, allocation)
    return int(process.stdout or pytest.fail(process.stderr))


@pytest.mark.parametrize(
    ("limit", "given", "name", "expected"),
    [
        (limit_kernel_cache, {}, CAPACITY, "256"),
        (limit_kernel_cache, {CAPACITY: "9"}, CAPACITY, "9"),
        (limit_openmp_spinning, {}, SPINNING, str(SPIN_COUNT)),
        (limit_openmp_spinning, {SPINNING: "9"}, SPINNING, "9"),
        (limit_openmp_spinning, {WAITING: "passive"}, SPINNING, None),
    ],
)
def test_the_environment_is_tuned_unless_the_operator_has_set_it(
    limit: Callable[[], None], given: dict[str, str], name: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (CAPACITY, SPINNING, WAITING):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)

    limit()

    assert os.environ.pop(name, None) == expected


def test_the_process_is_prepared_before_torch_reads_its_environment(sqlite_template: Path, tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_bytes(sqlite_template.read_bytes())
    code = """
import sys, service.process_tuning
from alacarte.cli.commands.serve import serve
def exit_now(_): sys.exit(f"torch is {'torch' in sys.modules}")
service.process_tuning.prepare_process = exit_now
serve()
"""
    process = run_python(code, ALACARTE_HOME=str(tmp_path), ALACARTE_DATABASE="", ALACARTE_OBJECTS="")

    assert "torch is False" in process.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc returns memory so eagerly")
def test_memory_that_was_freed_is_used_again_without_the_system() -> None:
    pages = 24 * 2**20 // os.sysconf("SC_PAGE_SIZE")

    assert count_page_faults("default") > 4 * pages
    assert count_page_faults("retained") < pages


@pytest.mark.parametrize(
    ("soft", "hard", "files", "connections"),
    [(2000, 2000, 2000, 1000), (600, 2000, 1512, 1000), (600, 1000, 1000, 488), (300, 300, 300, 16)],
    ids=["enough", "enough after raising the limit", "fewer", "hardly any"],
)
def test_connections_leave_files_for_everything_else(soft: int, hard: int, files: int, connections: int) -> None:
    process = run_python(PRINT_LIMITS, soft, hard)

    assert process.stdout.split() == [str(files), str(connections)], process.stderr
