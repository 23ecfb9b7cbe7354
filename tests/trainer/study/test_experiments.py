"""Every experiment from its wishes to its result, on little pictures; and what the numbers in it must obey."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from trainer.baselines.evaluate import EnsembleLogits
from trainer.baselines.parameter_average import average_prompts
from trainer.recipe import Recipe
from trainer.schedule import peak_rate
from trainer.study.experiments import recipes
from trainer.study.experiments.class_incremental import split_into_episodes
from trainer.study.experiments.experiment import composed_accuracy, format_points
from trainer.study.paper import DATA_SETS, find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.report.write import report_html, report_json
from trainer.study.results import ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.study import (
    EXPERIMENTS,
    ExperimentNotFound,
    ExperimentUnsupported,
    required_trainings,
    run_study,
    select_experiments,
)
from trainer.study.train_test_split import DomainSplit, Samples
from trainer.study.training_spec import TrainingSpec


def run_experiment(name: str, plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    return run_study([name], plan, runner, [], []).experiments[0]


def column(table: Table, title: str) -> list[object]:
    index = [each.title for each in table.columns].index(title)
    return [row[index] for row in table.rows]


def test_all_experiments_together_make_a_report(plan: StudyPlan, runner: StudyRunner) -> None:
    plan = replace(plan, episodes=1)
    names, skipped = select_experiments(["all", "recipes"], [plan])

    report = run_study(names, plan, runner, [("data", "rectangles")], [])

    assert skipped == {}
    assert [result.name for result in report.experiments] == list(EXPERIMENTS)
    assert report_json(report)
    assert "rectangles" in report_html(report)
    for result in report.experiments:
        assert result.tables
        assert result.claims
        for table in result.tables:
            assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_second_report_comes_from_the_cache(
    plan: StudyPlan, runner: StudyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["shards", "forgetting", "vote"]
    first = run_study(names, plan, runner, [], [])

    monkeypatch.setattr(StudyRunner, "_train_structured", None)
    monkeypatch.setattr(StudyRunner, "_train_on_all_cores", None)

    assert run_study(names, plan, runner, [], []) == first


def test_the_columns_of_shards_are_consistent(plan: StudyPlan, runner: StudyRunner) -> None:
    table = run_experiment("shards", plan, runner).tables[0]

    whole, paragon, *rows = table.rows
    best = max(float(whole[2] or 0), float(paragon[2] or 0))
    assert column(table, "shards") == ["1", "paragon", "2", "3"]
    for row in rows:
        composed, against, alone, gain = row[2:6]
        assert isinstance(composed, float)
        assert isinstance(alone, float)
        assert against == pytest.approx(composed - best)
        assert gain == pytest.approx(composed - alone)


def test_slow_trainings_can_be_skipped_and_the_report_says_so(plan: StudyPlan, runner: StudyRunner) -> None:
    quick = replace(plan, joint_recipe=None, tuned_recipe=None)
    names = ["shards", "ablation", "tuning"]

    report = run_study(names, quick, runner, [], [])

    assert {training.method for training in required_trainings(names, quick)} == {"structured"}
    shards, ablation, tuning = (result.tables[0] for result in report.experiments)
    assert shards.rows[1][:3] == ("paragon", len(plan.train), None)
    assert "skipped" in shards.note
    assert "paragon" not in column(ablation, "composition")
    assert not [method for method in column(tuning, "method") if "fine-tuning" in str(method)]


def test_no_removal_loses_nothing_and_the_last_shard_is_as_accurate_as_alone(
    plan: StudyPlan, runner: StudyRunner
) -> None:
    table = run_experiment("forgetting", plan, runner).tables[0]

    members = runner.member_logits(plan.shard_trainings(plan.removal_shards), plan.test)
    alone = [composed_accuracy(members.select_members([member]), plan.test) for member in range(plan.removal_shards)]
    assert table.rows[0][2] == 0
    assert min(alone) - 1e-9 <= float(table.rows[-1][5] or 0) <= max(alone) + 1e-9


def test_retraining_uses_all_pictures_but_the_removed_ones(plan: StudyPlan, runner: StudyRunner) -> None:
    result = run_experiment("forgetting", plan, runner)

    table = result.tables[0]
    retrained = required_trainings(["forgetting"], plan)[plan.removal_shards :]
    sizes = [len(training.samples) for training in retrained]
    shards = {frozenset(shard) for shard in plan.shards(plan.removal_shards)}
    assert retrained[0] == plan.prompt_training(plan.train)
    assert frozenset(retrained[-1].samples) in shards  # one shard is left
    assert sizes == sorted(sizes, reverse=True)
    assert column(table, "retrained: accuracy") == [
        composed_accuracy(runner.member_logits([training], plan.test), plan.test) for training in retrained
    ]
    half = retrained[plan.removal_shards // 2]
    left = [shard for shard in plan.shards(plan.removal_shards) if set(shard) <= set(half.samples)]
    composed = composed_accuracy(
        runner.member_logits([plan.prompt_training(shard) for shard in left], plan.test), plan.test
    )
    ahead = composed - composed_accuracy(runner.member_logits([half], plan.test), plan.test)
    assert result.claims[1].measured.startswith(format_points(ahead))


def test_parameters_are_averaged_for_every_number_of_shards(plan: StudyPlan, runner: StudyRunner) -> None:
    two, more = run_experiment("ablation", plan, runner).tables

    compositions = dict(zip(column(two, "composition"), column(two, "here"), strict=True))
    assert column(more, "shards") == ["2", "3"]
    assert (compositions["average of parameters"], compositions["APT"]) == more.rows[0][1:3]
    for count, row in zip((2, 3), more.rows, strict=True):
        trainings = plan.shard_trainings(count)
        average = average_prompts([runner.prompt(training) for training in trainings])
        averaged = composed_accuracy(runner.prompt_logits(average, plan.test), plan.test)
        composed = composed_accuracy(runner.member_logits(trainings, plan.test), plan.test)
        assert row[1:] == (averaged, composed, composed - averaged)


def test_recipes_are_compared_on_held_out_pictures_and_not_on_the_test_pictures(
    plan: StudyPlan, runner: StudyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = {
        "rate zero": replace(plan.recipe, base_rate=0.0, warmup_rate=0.0, least_rate=0.0),
        "unchanged": plan.recipe,
    }
    monkeypatch.setattr(recipes, "candidate_recipes", lambda _: candidates)
    parts = tuple(
        replace(part, test=relabel_wrongly(part.test)) for part in plan.domains
    )  # training lowers the accuracy there
    plan = replace(plan, domains=parts)

    result = run_experiment("recipes", plan, runner)

    held_out, tested = result.tables
    trainings = required_trainings(["recipes"], plan)
    trained = {sample for training in trainings for sample in training.samples}
    apart = tuple(sample for sample in plan.train if sample not in trained)
    assert trained < set(plan.train)
    assert f"{len(trained)} training pictures, {len(apart)} held out" in held_out.title
    assert [row[0] for row in held_out.rows] == [row[0] for row in tested.rows] == list(candidates)
    assert float(tested.rows[0][1] or 0) > float(tested.rows[1][1] or 0)
    assert result.claims[0].measured.partition("the best is ")[2].startswith("unchanged with")
    shards = replace(
        plan, domains=(DomainSplit("", tuple(sample for sample in plan.train if sample in trained), apart),)
    ).shards(2)
    members = runner.member_logits([TrainingSpec("structured", shard, plan.recipe) for shard in shards], apart)
    assert column(held_out, "2 shards")[1] == composed_accuracy(members, apart)
    for row in held_out.rows:
        shares = [cell for cell in row[1:] if isinstance(cell, float)]
        assert shares[-1] == pytest.approx(sum(shares[:-1]) / len(shares[:-1]))


def relabel_wrongly(samples: Samples) -> Samples:
    others = {"blue": "green", "green": "red", "red": "blue"}
    return tuple(replace(sample, label=others[sample.label]) for sample in samples)


def test_episodes_of_recipes_are_scored_concatenated_and_weighted(plan: StudyPlan) -> None:
    *_, task = recipes.recipe_tasks(plan)
    # The first member is wrong and confident; the second is right, and the picture lies on its prototype.
    confident, correct = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    prototypes = (torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 0.0]]))
    members = EnsembleLogits((("blue", "green"), ("pink", "red")), (confident, correct), torch.zeros(1, 2), prototypes)
    red = (replace(plan.test[0], label="red"),)

    assert {title: score(members, red) for title, score in task.scores.items()} == {
        "1 episodes, APT": 0.0,
        "1 episodes, APT-W": 1.0,
    }


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(batch=2, base_rate=0.03), Recipe(variant="head-only")])
def test_no_recipe_is_compared_under_two_names(recipe: Recipe) -> None:
    candidates = recipes.candidate_recipes(recipe)

    rates = {(replace(each, base_rate=None), peak_rate(each)) for each in candidates.values()}
    assert len(rates) == len(candidates) > 5
    assert candidates["unchanged"] == recipe


def test_empty_shards_and_classes_without_test_pictures_are_refused_before_training(plan: StudyPlan) -> None:
    tiny = replace(plan, removal_shards=len(plan.train))
    untested = replace(plan, domains=tuple(replace(part, test=()) for part in plan.domains))

    assert "forgetting" in select_experiments(["all"], [plan, tiny])[1]  # one seed is enough
    with pytest.raises(ExperimentUnsupported, match="without an empty one"):
        select_experiments(["forgetting"], [tiny])
    with pytest.raises(ExperimentUnsupported, match="no class with test pictures"):
        select_experiments(["class-incremental"], [untested])


def test_episodes_share_no_class(plan: StudyPlan) -> None:
    parts = split_into_episodes(replace(plan, episodes=3))

    labels = [{sample.label for sample in part} for part in parts]
    assert sorted(label for each in labels for label in each) == ["blue", "green", "red"]
    assert sum(len(part) for part in parts) == len(plan.train)


def test_a_domain_is_measured_with_and_without_its_own_prompt(plan: StudyPlan, runner: StudyRunner) -> None:
    table = run_experiment("domain-incremental", plan, runner).tables[0]

    left, right_ = plan.domains
    members = runner.member_logits([plan.prompt_training(left.train), plan.prompt_training(right_.train)], left.test)
    assert column(table, "domain") == ["left", "right", "all"]
    assert table.rows[0][3] == composed_accuracy(members.select_members([0]), left.test)
    assert table.rows[0][4] == composed_accuracy(members.select_members([1]), left.test)


def test_an_unsupported_experiment_is_skipped_in_all_and_refused_by_name(plan: StudyPlan) -> None:
    one = replace(plan, domains=plan.domains[:1], episodes=10)

    names, skipped = select_experiments(["all"], [one])

    assert sorted(skipped) == ["class-incremental", "domain-incremental"]
    assert names == [name for name in EXPERIMENTS if name not in skipped and name != "recipes"]
    with pytest.raises(ExperimentUnsupported, match="one domain only"):
        select_experiments(["domain-incremental"], [one])
    with pytest.raises(ExperimentNotFound, match="shards, forgetting"):
        select_experiments(["sharding"], [one])


def test_experiments_share_their_trainings(plan: StudyPlan, runner: StudyRunner) -> None:
    required = required_trainings(["shards", "vote", "head-only"], plan)

    missing = runner.filter_missing(required, plan.test)

    assert len(missing) == 2 + 5 + 6  # paragon and whole, shards of two splits, heads of those and of everything
    assert len(missing) < len(required)


def test_training_pictures_are_never_test_pictures(plan: StudyPlan) -> None:
    left, right_ = plan.domains
    overlapping = replace(plan, domains=(left, replace(right_, test=left.train)))

    assert {sample.digest for sample in overlapping.test} == {sample.digest for sample in left.test}


def test_the_papers_tables_were_copied_correctly() -> None:
    """The paper also gives the means of its columns: an error in one number would move them."""
    means: dict[str, dict[Any, float]] = {
        "shards": {1: 87.0, 2: 84.2, 3: 83.3, 5: 81.8, 10: 79.6, 15: 78.1, 20: 77.3, 50: 73.9},
        "fine_tuned_shards": {1: 88.69, 2: 75.93, 3: 68.66, 5: 62.0, 10: 51.2, 15: 46.44, 20: 41.46, 50: 25.61},
        "over_vote": {2: 3.81, 3: 2.94, 5: 2.0, 10: 1.66, 15: 1.56, 20: 1.77, 50: 1.83},
        "tuning": {
            "fine-tuning": 88.7,
            "head-only": 81.9,
            "bias+head": 89.4,
            "deep": 87.0,
            "deep-shared": 86.1,
            "shallow": 83.4,
        },
    }
    for table, columns in means.items():
        for column_name, share in columns.items():
            values = [getattr(each, table)[column_name] for each in DATA_SETS]
            assert 100 * sum(values) / len(values) == pytest.approx(share, abs=0.06)


def test_the_papers_data_set_is_found_by_name() -> None:
    data_sets = {name: find_paper_data_set(name) for name in ("flowers102-small", "cub200-small", "cifar100-small")}

    assert [each and each.name for each in data_sets.values()] == ["Flowers", "Cub-200", None]
