"""The direction of imports, and what no package may import at all; read from the text, so that nothing runs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = (
    "alacarte.api",
    "alacarte.prompting",
    "alacarte.client",
    "alacarte._client",
    "alacarte.cli",
    "alacarte.__main__",
    "registry",
    "trainer",
    "service",
    "bench",
    "tests",
)

# The parts that each part may import. All may import alacarte.api; bench and tests import everything, and nobody them.
ALLOWED: dict[str, frozenset[str]] = {
    "alacarte.api": frozenset(),
    "alacarte.prompting": frozenset(),
    "alacarte.client": frozenset({"alacarte._client"}),  # which is what it is made of
    "alacarte._client": frozenset(),
    "registry": frozenset(),
    "trainer": frozenset({"registry", "alacarte.prompting"}),
    "service": frozenset({"registry", "alacarte.prompting"}),
    "alacarte.__main__": frozenset({"alacarte.cli"}),  # `python -m alacarte` is the command
    "alacarte.cli": frozenset(
        {"registry", "alacarte.prompting", "alacarte.client", "alacarte._client", "trainer", "service"}
    ),
}
# Whatever of others a part stays free of.
FOREIGN: dict[str, frozenset[str]] = {
    "alacarte.api": frozenset({"torch", "torchvision", "timm", "sqlalchemy", "fastapi", "starlette", "httpx"}),
    "registry": frozenset({"torch", "torchvision", "timm", "fastapi", "starlette", "uvicorn"}),
    "alacarte.client": frozenset({"torch", "torchvision", "timm", "sqlalchemy", "fastapi"}),
    "alacarte._client": frozenset({"torch", "torchvision", "timm", "sqlalchemy", "fastapi"}),
    "alacarte.prompting": frozenset({"sqlalchemy", "boto3", "fastapi", "starlette", "httpx", "requests"}),
}
RUNS_CODE = frozenset({"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"})


@dataclass(frozen=True)
class Import:
    """One module, or name of a module, that a file imports somewhere."""

    line: int
    name: str


def imports_of(file: Path, module: str) -> Iterator[Import]:
    """Everything the file imports, at its top or within a function, with dots and by name in a text."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield from (Import(node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield Import(node.lineno, str(node.args[0].value))


def module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def part_of(name: str) -> str | None:
    return next((part for part in PARTS if name == part or name.startswith(part + ".")), None)


def torch_loads_in(file: Path) -> Iterator[int]:
    """The lines in which torch.load is called or taken, under whatever name torch was imported."""
    tree = ast.parse(file.read_text(), str(file))
    torches = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "torch"
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "load"
            and isinstance(node.value, ast.Name)
            and node.value.id in torches
        ):
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            yield from (node.lineno for alias in node.names if alias.name == "load")


def violations_below(root: Path) -> list[str]:
    """What breaks a rule in the packages below the root, each as `file:line what`."""
    violations = []
    for top in ("alacarte", "registry", "trainer", "service"):
        for file in sorted((root / top).rglob("*.py")):
            where = file.relative_to(root)
            module = module_of(where)
            if file.name == "__init__.py" and file.read_bytes().strip():
                violations.append(f"{where}:1 is not empty")
            part = part_of(module)
            for imported in imports_of(file, module):
                other = part_of(imported.name)
                allowed = ALLOWED.get(part or "", frozenset())
                if other not in (None, part, "alacarte.api") and other not in allowed:
                    violations.append(f"{where}:{imported.line} imports {other}")
                library = imported.name.partition(".")[0]
                if library in FOREIGN.get(part or "", frozenset()) | RUNS_CODE:
                    violations.append(f"{where}:{imported.line} imports {library}")
            violations += [f"{where}:{line} uses torch.load" for line in torch_loads_in(file)]
    return violations


def test_the_packages_keep_the_direction_of_imports_and_the_other_rules() -> None:
    assert violations_below(ROOT) == []


def test_the_packages_are_where_the_rules_look() -> None:
    modules = [module for top in ("alacarte", "registry", "trainer") for module in modules_below(top)]
    assert len(modules) > 30
    assert {"alacarte.prompting", "registry", "trainer"} <= {part_of(module) for module in modules}


BREACHES = {
    "alacarte/api/a.py": ("from registry.ids import new_id", "alacarte/api/a.py:1 imports registry"),
    "alacarte/api/b.py": ("from fastapi import Query", "alacarte/api/b.py:1 imports fastapi"),
    "registry/a.py": ("import trainer.train", "registry/a.py:1 imports trainer"),
    "registry/b.py": ("def f():\n    import torch.nn", "registry/b.py:2 imports torch"),
    "registry/c.py": ("from fastapi import FastAPI", "registry/c.py:1 imports fastapi"),
    "registry/d.py": ("from alacarte import prompting", "registry/d.py:1 imports alacarte.prompting"),
    "trainer/a.py": ("from service.app import app", "trainer/a.py:1 imports service"),
    "trainer/b.py": ("import alacarte.cli.main as m", "trainer/b.py:1 imports alacarte.cli"),
    "trainer/c.py": ("import importlib\nimportlib.import_module('bench.speed')", "trainer/c.py:2 imports bench"),
    "service/a.py": ("from trainer import train", "service/a.py:1 imports trainer"),
    "service/b.py": ("if True:\n    import tests.conftest", "service/b.py:2 imports tests"),
    "alacarte/client.py": ("from alacarte.prompting import errors", "alacarte/client.py:1 imports alacarte.prompting"),
    "alacarte/prompting/a.py": ("from registry.ids import new_id", "alacarte/prompting/a.py:1 imports registry"),
    "alacarte/prompting/b.py": ("from ..cli import main", "alacarte/prompting/b.py:1 imports alacarte.cli"),
    "alacarte/prompting/c.py": ("from pickle import loads", "alacarte/prompting/c.py:1 imports pickle"),
    "alacarte/prompting/d.py": ("import torch as t\nt.load('x')", "alacarte/prompting/d.py:2 uses torch.load"),
    "alacarte/prompting/e.py": ("from torch import load", "alacarte/prompting/e.py:1 uses torch.load"),
    "alacarte/__init__.py": ("VERSION = 1", "alacarte/__init__.py:1 is not empty"),
    "alacarte/__main__.py": ("import trainer.train", "alacarte/__main__.py:1 imports trainer"),
    "alacarte/stray.py": ("from registry import errors", "alacarte/stray.py:1 imports registry"),
    "alacarte/cli/a.py": ("import bench", "alacarte/cli/a.py:1 imports bench"),
}  # fmt: skip
ALLOWED_FILES = {
    "alacarte/api/good.py": "from pydantic import BaseModel\nfrom alacarte.api.base import ResponseModel",
    "trainer/good.py": "import torch\nfrom registry.ids import new_id\nfrom alacarte.prompting import backbone",
    "service/good.py": "from fastapi import FastAPI\nfrom registry import errors\nimport alacarte.prompting.predict",
    "alacarte/cli/good.py": "def f():\n    import trainer.train, service.app, registry.ids, alacarte.client",
    "alacarte/__main__.py": "from alacarte.cli.main import main",
    "alacarte/prompting/good.py": "import torch\nfrom . import errors\nfrom safetensors.torch import load\nload(b'')",
    "registry/good.py": "import registry.errors, alacarte.api.literals\nfrom .reading import sample\nimport sqlalchemy",
    "registry/__init__.py": "",
    "bench/speed.py": "import trainer, service, pickle",
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found_where_it_is(name: str, tmp_path: Path) -> None:
    text, violation = BREACHES[name]
    for file, content in {**ALLOWED_FILES, name: text}.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    assert violations_below(tmp_path) == [violation]


def modules_below(top: str) -> list[str]:
    return [module_of(file.relative_to(ROOT)) for file in sorted((ROOT / top).rglob("*.py"))]


def loaded_by(modules: list[str]) -> set[str]:
    """The libraries that a fresh interpreter has loaded after importing the modules."""
    code = f"import sys\nfor name in {modules!r}:\n    __import__(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("modules", "foreign"),
    [
        (modules_below("registry"), FOREIGN["registry"]),
        ([*modules_below("alacarte/api"), "alacarte.client"], FOREIGN["alacarte.client"]),
        (["alacarte.cli.main"], {"torch", "timm", "torchvision"}),
    ],
    ids=["registry", "client", "command line"],
)
def test_importing_loads_no_library_of_others(modules: list[str], foreign: frozenset[str]) -> None:
    loaded = loaded_by(modules)

    assert modules[0].partition(".")[0] in loaded
    assert not loaded & foreign
