"""The processes of the serving benchmark exist, and the functions that it traces are still there."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import bench.serving.contenders
import bench.serving.processes

TRACE = "from bench.serving.processes.traced_service import StageRecorder, trace; import pathlib, sys; "
TRACE += "trace(StageRecorder(pathlib.Path(sys.argv[1])))"


def test_every_process_that_is_started_exists() -> None:
    source = Path(bench.serving.contenders.__file__).read_text()
    modules = {module.name for module in pkgutil.iter_modules(bench.serving.processes.__path__)}

    started = set(re.findall(r"self\._start\(\w+, \"(\w+)\"", source))

    assert started == modules - {"load_client", "trivial_server"}  # started elsewhere


def test_every_traced_function_exists(tmp_path: Path) -> None:
    process = subprocess.run([sys.executable, "-c", TRACE, str(tmp_path / "marks")], capture_output=True, text=True)

    assert process.returncode == 0, process.stderr
