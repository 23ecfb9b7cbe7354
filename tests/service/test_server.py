"""The server takes as many connections as the settings say, or as the limit of open files allows."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize(
    ("soft", "hard", "files", "connections"),
    [(2000, 2000, 2000, 1000), (600, 2000, 1512, 1000), (600, 1000, 1000, 488), (300, 300, 300, 16)],
    ids=["enough", "enough after raising the limit", "fewer", "hardly any"],
)
def test_connections_leave_files_for_everything_else(soft: int, hard: int, files: int, connections: int) -> None:
    command = [sys.executable, "-c", PRINT_LIMITS, str(soft), str(hard)]

    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert process.stdout.split() == [str(files), str(connections)], process.stderr
