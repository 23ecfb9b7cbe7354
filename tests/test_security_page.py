"""The page on security is true: what it names as shown is there to be run."""

import ast
import re
from pathlib import Path

from registry.settings import RegistrySettings
from service.auth.rate_limit import MAX_BUCKETS
from service.settings import ServiceSettings

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", PAGE)


def functions_in(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_test_that_the_page_names_is_there() -> None:
    assert len(NAMED) > 30
    for path, name in NAMED:
        file = ROOT / path
        assert file.exists(), path
        if name:
            assert name in functions_in(file), f"{path} has no {name}"
        elif file.is_file():
            assert any(
                line.startswith(("def test_", "    def test_", "Test")) for line in file.read_text().splitlines()
            )


def test_every_line_of_the_table_names_a_test() -> None:
    table = PAGE.partition("| who | wants |")[2].partition("\n\n")[0].splitlines()[2:]

    assert len(table) > 15
    for line in table:
        assert "`tests/" in line.rpartition(" | ")[2], line


def test_every_setting_that_the_page_names_is_one_and_every_number_is_its_default() -> None:
    known = {f"ALACARTE_{name.upper()}" for name in ServiceSettings.model_fields}
    assert set(re.findall(r"ALACARTE_\w+", PAGE)) <= known
    fields = ServiceSettings.model_fields

    assert f"{fields['rate_per_s'].default:,.0f} a second and {fields['rate_burst'].default:,} at once" in PAGE
    assert f"`ALACARTE_QUOTA_BYTES` ({RegistrySettings.model_fields['quota_bytes'].default // 2**30} GiB)" in PAGE
    assert f"at most {MAX_BUCKETS:,} of them" in PAGE
