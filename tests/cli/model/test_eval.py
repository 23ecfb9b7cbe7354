"""`alacarte eval`: a report of the paper's experiments on one's own pictures, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.fixtures import BACKBONE, draw, run

TINY = (*BACKBONE, "--size", "32", "--epochs", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders without a test part."""
    return draw(tmp_path_factory.mktemp("eval") / "shades", each=10)


def test_the_report_is_a_page_and_a_document_with_the_same_findings(data: Path, tmp_path: Path) -> None:
    ended = run("eval", "--data", data, "--experiment", "vote", "--out", tmp_path / "report", "--json", *TINY)

    document = json.loads((tmp_path / "report" / "report.json").read_text())
    page = (tmp_path / "report" / "report.html").read_text()
    assert ended.code == 0
    assert ended.document == document
    assert [experiment["name"] for experiment in document["experiments"]] == ["vote"]
    assert document["experiments"][0]["title"] in page
    assert "augment" not in dict(document["setup"])["recipe"]
    assert "one in 5 is held out" in ended.err
    assert str(tmp_path / "report" / "report.html") in ended.err


def test_a_second_run_trains_nothing_and_reports_the_same(data: Path, tmp_path: Path) -> None:
    options = ("--experiment", "vote", "--experiment", "forgetting", "--out", tmp_path / "report", *TINY)
    small = draw(tmp_path / "shades", each=60)  # enough for twenty shards

    first = run("eval", "--data", small, "--json", *options)
    again = run("eval", "--data", small, "--json", *options)
    shutil.rmtree(tmp_path / "report" / "cache")
    anew = run("eval", "--data", small, "--json", *options)

    assert "0 of them cached" in first.err
    count = first.err.partition(" trainings required")[0].rsplit("\n", 1)[-1]
    assert f"{count} trainings required, {count} of them cached" in again.err
    assert first.document == again.document == anew.document


def test_the_table_shows_which_claims_hold_and_the_report_how_the_recipe_was_changed(
    data: Path, tmp_path: Path
) -> None:
    changed = ("--augment", "none", "--label-smoothing", "0.1")

    ended = run("eval", "--data", data, "--experiment", "vote", "--out", tmp_path, *changed, *TINY)

    assert "Averaging is at least as good as voting" in " ".join(ended.out.split())
    assert "holds" in ended.out
    recipe = dict(json.loads((tmp_path / "report.json").read_text())["setup"])["recipe"]
    assert recipe.startswith("default")
    assert "label_smoothing 0.1" in recipe
    assert "augment none" in recipe
    assert "views" not in recipe


def test_several_seeds_make_one_report_of_means(tmp_path: Path) -> None:
    pictures = draw(tmp_path / "shades" / "train", each=12)
    for file in sorted(pictures.glob("*/1?.png")):
        (tmp_path / "shades" / "test" / file.parent.name).mkdir(parents=True, exist_ok=True)
        file.rename(tmp_path / "shades" / "test" / file.parent.name / file.name)
    options = ("--data", tmp_path / "shades", "--experiment", "vote", "--json", *TINY)

    both = run("eval", "--out", tmp_path / "both", "--seed", "3", "--seeds", "2", *options)
    alone = [run("eval", "--out", tmp_path / seed, "--seed", seed, *options) for seed in ("3", "4")]

    (merged,) = both.document["experiments"][0]["tables"]
    one, other = (ended.document["experiments"][0]["tables"][0]["rows"] for ended in alone)
    assert dict(both.document["setup"])["seed"] == "3, 4"
    assert "seed 4" in both.err
    for row, spreads, first, second in zip(merged["rows"], merged["standard_deviations"], one, other, strict=True):
        for place in (1, 2):  # by average and by vote
            assert row[place] == pytest.approx((first[place] + second[place]) / 2)
            assert (spreads[place] is None) == (first[place] == second[place])
    # Otherwise the seeds of this test prove nothing.
    assert any(spreads[2] is not None for spreads in merged["standard_deviations"])


def test_what_makes_no_sense_with_the_data_is_refused_by_name_before_any_work(data: Path, tmp_path: Path) -> None:
    report = ("--out", tmp_path / "report", *TINY)

    domains = run("eval", "--data", data, "--experiment", "domain-incremental", *report)
    unknown = run("eval", "--data", data, "--experiment", "sharding", *report)
    nowhere = run("eval", "--data", data / "nothing", *report)

    assert "one domain only" in domains.error
    assert "no experiment 'sharding': use all, or some of shards" in unknown.error
    assert nowhere.code == unknown.code == domains.code == 1
    assert not (tmp_path / "report" / "report.html").exists()
