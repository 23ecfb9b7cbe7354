"""What the service asks of its process: it does what it says, and an operator's word goes before ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.process_tuning import SPINS, keep_few_kernels, rest_soon

ROOT = Path(__file__).parents[2]
CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
SPINNING, WAITING = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
FAULTS = """
import ctypes, resource, sys
if sys.argv[1] == "kept":
    from service.process_tuning import keep_freed_memory
    assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.memset.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def use():
    block = libc.malloc(24 * 2**20)
    libc.memset(block, 1, 24 * 2**20)
    libc.free(block)
libc.mallopt(-3, 1 << 20) if sys.argv[1] == "usual" else None  # as it is before glibc has learnt better
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    ended = subprocess.run([sys.executable, "-c", FAULTS, how], cwd=ROOT, capture_output=True, text=True)
    return int(ended.stdout or pytest.fail(ended.stderr))


@pytest.mark.parametrize(("told", "kept"), [(None, "256"), ("9", "9")])
def test_few_kernels_are_kept_unless_the_operator_says_otherwise(
    told: str | None, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CAPACITY, raising=False)
    if told is not None:
        monkeypatch.setenv(CAPACITY, told)

    keep_few_kernels()

    assert os.environ.pop(CAPACITY) == kept


@pytest.mark.parametrize(("told", "kept"), [({}, str(SPINS)), ({SPINNING: "9"}, "9"), ({WAITING: "passive"}, None)])
def test_threads_rest_soon_after_a_pass_unless_the_operator_says_otherwise(
    told: dict[str, str], kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (SPINNING, WAITING):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    rest_soon()

    assert os.environ.pop(SPINNING, None) == kept


def test_the_process_is_prepared_before_torch_reads_its_environment(sqlite_template: Path, tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_bytes(sqlite_template.read_bytes())
    code = """
import sys, service.process_tuning
from alacarte.cli.commands.serve import serve
def look(_): sys.exit(f"torch is {'torch' in sys.modules}")
service.process_tuning.prepare_process = look
serve()
"""
    env = {**os.environ, "ALACARTE_HOME": str(tmp_path), "ALACARTE_DATABASE": "", "ALACARTE_OBJECTS": ""}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=env)

    assert "torch is False" in ended.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc gives memory back so eagerly")
def test_memory_that_was_freed_is_used_again_without_the_system() -> None:
    pages = 24 * 2**20 // os.sysconf("SC_PAGE_SIZE")

    assert faults("usual") > 4 * pages
    assert faults("kept") < pages
