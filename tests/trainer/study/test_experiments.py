"""Every experiment from its wishes to its finding, on little pictures; and what the numbers in it must obey."""

from dataclasses import replace

import pytest
import torch

from trainer.baselines.evaluate import EnsembleLogits
from trainer.baselines.parameter_average import average_prompts
from trainer.recipe import Recipe
from trainer.schedule import peak_rate
from trainer.study.experiments import recipes
from trainer.study.experiments.class_incremental import episodes
from trainer.study.experiments.experiment import composed_accuracy, format_points
from trainer.study.paper import DATA_SETS, find_paper_data_set
from trainer.study.plan import DomainSplit, Samples, StudyPlan
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
from trainer.study.training_spec import TrainingSpec


def found(name: str, plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    return run_study([name], plan, runner, [], []).experiments[0]


def column(table: Table, title: str) -> list[object]:
    place = [each.title for each in table.columns].index(title)
    return [row[place] for row in table.rows]


def test_all_of_them_together_make_a_report(plan: StudyPlan, runner: StudyRunner) -> None:
    plan = replace(plan, episodes=1)
    names, impossible = select_experiments(["all", "recipes"], [plan])

    report = run_study(names, plan, runner, [("data", "rectangles")], [])

    assert impossible == {}
    assert [finding.name for finding in report.experiments] == list(EXPERIMENTS)
    assert report_json(report)
    assert "rectangles" in report_html(report)
    for finding in report.experiments:
        assert finding.tables
        assert finding.claims
        for table in finding.tables:
            assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_second_report_comes_from_what_is_kept(
    plan: StudyPlan, runner: StudyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["shards", "forgetting", "vote"]
    first = run_study(names, plan, runner, [], [])

    monkeypatch.setattr(StudyRunner, "_train_structured", None)
    monkeypatch.setattr(StudyRunner, "_train_on_all_cores", None)

    assert run_study(names, plan, runner, [], []) == first


def test_the_columns_of_shards_agree_with_each_other(plan: StudyPlan, runner: StudyRunner) -> None:
    table = found("shards", plan, runner).tables[0]

    whole, paragon, *rows = table.rows
    best = max(float(whole[2] or 0), float(paragon[2] or 0))
    assert column(table, "shards") == ["1", "paragon", "2", "3"]
    for row in rows:
        composed, against, alone, gain = row[2:6]
        assert isinstance(composed, float)
        assert isinstance(alone, float)
        assert against == pytest.approx(composed - best)
        assert gain == pytest.approx(composed - alone)


def test_what_is_slow_can_be_left_out_and_the_report_says_so(plan: StudyPlan, runner: StudyRunner) -> None:
    quick = replace(plan, joint_recipe=None, tuned_recipe=None)
    names = ["shards", "ablation", "tuning"]

    report = run_study(names, quick, runner, [], [])

    assert {training.method for training in required_trainings(names, quick)} == {"structured"}
    shards, ablation, tuning = (finding.tables[0] for finding in report.experiments)
    assert shards.rows[1][:3] == ("paragon", len(plan.train), None)
    assert "left out" in shards.note
    assert "paragon" not in column(ablation, "way")
    assert not [way for way in column(tuning, "way") if "fine-tuning" in str(way)]


def test_with_nothing_removed_nothing_is_lost_and_one_source_left_is_that_source_alone(
    plan: StudyPlan, runner: StudyRunner
) -> None:
    table = found("forgetting", plan, runner).tables[0]

    said = runner.member_logits([plan.prompt_training(shard) for shard in plan.shards(plan.removal_shards)], plan.test)
    alone = [composed_accuracy(said.select_members([member]), plan.test) for member in range(plan.removal_shards)]
    assert table.rows[0][2] == 0
    assert min(alone) - 1e-9 <= float(table.rows[-1][5] or 0) <= max(alone) + 1e-9


def test_what_is_learnt_anew_is_learnt_from_everything_but_the_forgotten(plan: StudyPlan, runner: StudyRunner) -> None:
    finding = found("forgetting", plan, runner)

    table = finding.tables[0]
    anew = required_trainings(["forgetting"], plan)[plan.removal_shards :]
    sizes = [len(training.samples) for training in anew]
    shards = {frozenset(shard) for shard in plan.shards(plan.removal_shards)}
    assert anew[0] == plan.prompt_training(plan.train)
    assert frozenset(anew[-1].samples) in shards  # one is left, and so it is that one
    assert sizes == sorted(sizes, reverse=True)
    assert column(table, "learnt anew: accuracy") == [
        composed_accuracy(runner.member_logits([training], plan.test), plan.test) for training in anew
    ]
    half = anew[plan.removal_shards // 2]
    left = [shard for shard in plan.shards(plan.removal_shards) if set(shard) <= set(half.samples)]
    composed = composed_accuracy(
        runner.member_logits([plan.prompt_training(shard) for shard in left], plan.test), plan.test
    )
    ahead = composed - composed_accuracy(runner.member_logits([half], plan.test), plan.test)
    assert finding.claims[1].measured.startswith(format_points(ahead))


def test_parameters_are_averaged_for_every_number_of_shards(plan: StudyPlan, runner: StudyRunner) -> None:
    two, more = found("ablation", plan, runner).tables

    ways = dict(zip(column(two, "way"), column(two, "here"), strict=True))
    assert column(more, "shards") == ["2", "3"]
    assert (ways["average of parameters"], ways["APT"]) == more.rows[0][1:3]
    for count, row in zip((2, 3), more.rows, strict=True):
        trainings = [plan.prompt_training(shard) for shard in plan.shards(count)]
        average = average_prompts([runner.prompt(training) for training in trainings])
        averaged = composed_accuracy(runner.prompt_logits(average, plan.test), plan.test)
        composed = composed_accuracy(runner.member_logits(trainings, plan.test), plan.test)
        assert row[1:] == (averaged, composed, composed - averaged)


def test_recipes_are_compared_by_pictures_that_nobody_learnt_from_and_not_by_the_test(
    plan: StudyPlan, runner: StudyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {
        "learns nothing": replace(plan.recipe, base_rate=0.0, warmup_rate=0.0, least_rate=0.0),
        "as it is": plan.recipe,
    }
    monkeypatch.setattr(recipes, "candidates", lambda _: few)
    parts = tuple(replace(part, test=wrongly_labelled(part.test)) for part in plan.domains)  # who learns is wrong there
    plan = replace(plan, domains=parts)

    finding = found("recipes", plan, runner)

    held_out, tested = finding.tables
    trainings = required_trainings(["recipes"], plan)
    learnt = {sample for training in trainings for sample in training.samples}
    apart = tuple(sample for sample in plan.train if sample not in learnt)
    assert learnt < set(plan.train)
    assert f"{len(learnt)} pictures learnt, {len(apart)} held out" in held_out.title
    assert [row[0] for row in held_out.rows] == [row[0] for row in tested.rows] == list(few)
    assert float(tested.rows[0][1] or 0) > float(tested.rows[1][1] or 0)
    assert finding.claims[0].measured.partition("the best is ")[2].startswith("as it is with")
    shards = replace(
        plan, domains=(DomainSplit("", tuple(sample for sample in plan.train if sample in learnt), apart),)
    ).shards(2)
    said = runner.member_logits([TrainingSpec("structured", shard, plan.recipe) for shard in shards], apart)
    assert column(held_out, "2 shards")[1] == composed_accuracy(said, apart)
    for row in held_out.rows:
        shares = [cell for cell in row[1:] if isinstance(cell, float)]
        assert shares[-1] == pytest.approx(sum(shares[:-1]) / len(shares[:-1]))


def wrongly_labelled(samples: Samples) -> Samples:
    others = {"blue": "green", "green": "red", "red": "blue"}
    return tuple(replace(sample, label=others[sample.label]) for sample in samples)


def test_episodes_of_recipes_are_judged_side_by_side_and_weighted(plan: StudyPlan) -> None:
    *_, question = recipes.questions(plan)
    # The first has no idea and shouts; the second knows, and the picture lies on its prototype.
    loud, knowing = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    prototypes = (torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 0.0]]))
    said = EnsembleLogits((("blue", "green"), ("pink", "red")), (loud, knowing), torch.zeros(1, 2), prototypes)
    red = (replace(plan.test[0], label="red"),)

    assert {title: judge(said, red) for title, judge in question.judges.items()} == {
        "1 episodes, APT": 0.0,
        "1 episodes, APT-W": 1.0,
    }


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(batch=2, base_rate=0.03), Recipe(variant="head-only")])
def test_no_recipe_is_compared_under_two_names(recipe: Recipe) -> None:
    found = recipes.candidates(recipe)

    rates = {(replace(each, base_rate=None), peak_rate(each)) for each in found.values()}
    assert len(rates) == len(found) > 5
    assert found["as it is"] == recipe


def test_sources_that_would_be_empty_and_classes_that_nobody_is_asked_about_are_refused_beforehand(
    plan: StudyPlan,
) -> None:
    crumbs = replace(plan, removal_shards=len(plan.train))
    unasked = replace(plan, domains=tuple(replace(part, test=()) for part in plan.domains))

    assert "forgetting" in select_experiments(["all"], [plan, crumbs])[1]  # of one seed is enough
    with pytest.raises(ExperimentUnsupported, match="of which none is empty"):
        select_experiments(["forgetting"], [crumbs])
    with pytest.raises(ExperimentUnsupported, match="no picture to be asked about"):
        select_experiments(["class-incremental"], [unasked])


def test_an_episode_has_classes_that_no_other_has(plan: StudyPlan) -> None:
    parts = episodes(replace(plan, episodes=3))

    labels = [{sample.label for sample in part} for part in parts]
    assert sorted(label for each in labels for label in each) == ["blue", "green", "red"]
    assert sum(len(part) for part in parts) == len(plan.train)


def test_a_domain_is_asked_about_with_and_without_its_own_prompt(plan: StudyPlan, runner: StudyRunner) -> None:
    table = found("domain-incremental", plan, runner).tables[0]

    left, right_ = plan.domains
    said = runner.member_logits([plan.prompt_training(left.train), plan.prompt_training(right_.train)], left.test)
    assert column(table, "domain") == ["left", "right", "all"]
    assert table.rows[0][3] == composed_accuracy(said.select_members([0]), left.test)
    assert table.rows[0][4] == composed_accuracy(said.select_members([1]), left.test)


def test_what_does_not_fit_the_data_is_left_out_of_all_and_refused_by_name(plan: StudyPlan) -> None:
    one = replace(plan, domains=plan.domains[:1], episodes=10)

    names, impossible = select_experiments(["all"], [one])

    assert sorted(impossible) == ["class-incremental", "domain-incremental"]
    assert names == [name for name in EXPERIMENTS if name not in impossible and name != "recipes"]
    with pytest.raises(ExperimentUnsupported, match="one domain only"):
        select_experiments(["domain-incremental"], [one])
    with pytest.raises(ExperimentNotFound, match="shards, forgetting"):
        select_experiments(["sharding"], [one])


def test_experiments_share_their_trainings(plan: StudyPlan, runner: StudyRunner) -> None:
    wanted = required_trainings(["shards", "vote", "head-only"], plan)

    missing = runner.filter_missing(wanted, plan.test)

    assert len(missing) == 2 + 5 + 6  # paragon and whole, shards of two splits, heads of those and of everything
    assert len(missing) < len(wanted)


def test_the_pictures_to_learn_from_are_never_asked_about(plan: StudyPlan) -> None:
    left, right_ = plan.domains
    overlapping = replace(plan, domains=(left, replace(right_, test=left.train)))

    assert {sample.digest for sample in overlapping.test} == {sample.digest for sample in left.test}


def test_the_papers_tables_were_copied_rightly() -> None:
    """The paper gives the means of its columns, too: a slip in one number would move them."""
    means = {1: 87.0, 2: 84.2, 3: 83.3, 5: 81.8, 10: 79.6, 15: 78.1, 20: 77.3, 50: 73.9}
    tuned = {1: 88.69, 2: 75.93, 3: 68.66, 5: 62.0, 10: 51.2, 15: 46.44, 20: 41.46, 50: 25.61}
    votes = {2: 3.81, 3: 2.94, 5: 2.0, 10: 1.66, 15: 1.56, 20: 1.77, 50: 1.83}
    ways = {
        "fine-tuning": 88.7,
        "head-only": 81.9,
        "bias+head": 89.4,
        "deep": 87.0,
        "deep-shared": 86.1,
        "shallow": 83.4,
    }

    def mean(values: list[float]) -> float:
        return 100 * sum(values) / len(values)

    for count, share in means.items():
        assert mean([each.shards[count] for each in DATA_SETS]) == pytest.approx(share, abs=0.06)
    for count, share in tuned.items():
        assert mean([each.fine_tuned_shards[count] for each in DATA_SETS]) == pytest.approx(share, abs=0.06)
    for count, share in votes.items():
        assert mean([each.over_vote[count] for each in DATA_SETS]) == pytest.approx(share, abs=0.06)
    for way, share in ways.items():
        assert mean([each.tuning[way] for each in DATA_SETS]) == pytest.approx(share, abs=0.06)


def test_a_data_set_finds_the_papers_by_its_name() -> None:
    names = {name: find_paper_data_set(name) for name in ("flowers102-small", "cub200-small", "cifar100-small")}

    assert {name: each and each.name for name, each in names.items()} == {
        "flowers102-small": "Flowers",
        "cub200-small": "Cub-200",
        "cifar100-small": None,
    }
