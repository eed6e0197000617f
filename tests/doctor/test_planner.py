"""Choosing checks by selector, and only the facts that they need."""

import pytest

from verl_doctor.api import check, fact
from verl_doctor.planner import UnknownSelector, plan
from verl_doctor.registry import Registry


def documented(function):
    function.__doc__ = "Something is wrong.\n\nIt matters.\n\nFix: do something."
    return function


@fact()
def one():
    return 1


@fact()
def two(one):
    return 2


@fact()
def unused():
    return 3


@pytest.fixture
def registry():
    built = Registry()
    for declared in (
        one,
        two,
        unused,
        check("WANDB001", "key-missing", tags={"logger", "wandb"}, good=[{}], bad=[{}])(documented(lambda one: [])),
        check("WANDB010", "mode", tags={"logger", "wandb", "mode"}, good=[{}], bad=[{}])(documented(lambda one: [])),
        check("NET001", "proxy", tags={"proxy"}, good=[{}], bad=[{}])(documented(lambda two: [])),
    ):
        built.add(declared.__declared__)
    return built


@pytest.mark.parametrize(
    ("selectors", "skip", "codes"),
    [
        ([], [], ["NET001", "WANDB001", "WANDB010"]),
        (["all"], [], ["NET001", "WANDB001", "WANDB010"]),
        (["logger"], [], ["WANDB001", "WANDB010"]),
        (["wandb001"], [], ["WANDB001"]),
        (["WANDB"], ["mode"], ["WANDB001"]),
        (["key-missing", "NET"], [], ["NET001", "WANDB001"]),
        (["all"], ["wandb", "net"], []),
    ],
)
def test_selection(registry, selectors, skip, codes):
    assert [chosen.code for chosen in plan(registry, selectors, skip).checks] == codes


def test_only_needed_facts_each_after_its_own_needs(registry):
    assert [fact.name for fact in plan(registry, ["proxy"]).facts] == ["one", "two"]
    assert [fact.name for fact in plan(registry, ["wandb"]).facts] == ["one"]
    assert [fact.name for fact in plan(registry, ["proxy"], given=["two"]).facts] == []


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("wandbb", "did you mean 'wandb'"),
        ("WANDB01O", "did you mean 'WANDB010'"),
        ("zzz", "`verl-doctor list`"),
        ("", "no check"),
        ("*", "no check"),
    ],
)
def test_an_unknown_selector_is_refused_with_a_suggestion(registry, selector, hint):
    with pytest.raises(UnknownSelector, match=hint):
        plan(registry, [selector])
    with pytest.raises(UnknownSelector):
        plan(registry, [], [selector])


def test_facts_in_a_circle_are_named():
    built = Registry()

    @fact()
    def left(right):
        return right

    @fact()
    def right(left):
        return left

    for declared in (left, right, check("DEMO001", "demo", tags={"demo"}, good=[{}], bad=[{}])(documented(lambda left: []))):
        built.add(declared.__declared__)
    with pytest.raises(ValueError, match="left -> right -> left"):
        plan(built, ["all"])
