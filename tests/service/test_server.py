"""How many connections the server takes: as many as it is told to, or as the system lets it have files."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOLD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from service.process_tuning import raise_file_limit
from service.server import make_server
from service.settings import ServiceSettings
raise_file_limit(1000)
server = make_server(None, ServiceSettings(max_connections=1000))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], server.config.http.keywords["lobby"].max_connections)
"""


@pytest.mark.parametrize(
    ("soft", "hard", "files", "connections"),
    [(2000, 2000, 2000, 1000), (600, 2000, 1512, 1000), (600, 1000, 1000, 488), (300, 300, 300, 16)],
    ids=["enough", "enough for the asking", "fewer", "hardly any"],
)
def test_connections_leave_files_for_everything_else(soft: int, hard: int, files: int, connections: int) -> None:
    command = [sys.executable, "-c", TOLD, str(soft), str(hard)]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert ended.stdout.split() == [str(files), str(connections)], ended.stderr
