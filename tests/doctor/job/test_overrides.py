"""Hydra's own options apart from overrides, and overrides one by one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_doctor.errors import BadInput
from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.overrides import MAX_ARGUMENTS, Given, parse_override, refuse_excess, split_hydra_arguments
from verl_doctor.job.refusal import Refusal
from verl_doctor.report import Location


def split(*texts):
    return split_hydra_arguments([Argument(text) for text in texts])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["--config-path", "p", "a=1"], ("p", None, None)),
        (["--config-path=p", "--config-name=n", "a=1"], ("p", "n", None)),
        (["-cp", "p", "-cn", "n", "-cd", "d", "a=1"], ("p", "n", "d")),
        (["--config-n=n", "a=1"], (None, "n", None)),
        (["--config-name", "n", "--cfg", "job", "--resolve", "a=1"], (None, "n", None)),
        (["a=1"], (None, None, None)),
    ],
)
def test_options_are_taken_apart(texts, expected):
    result = split(*texts)
    assert (result.config_path, result.config_name, result.config_dir) == expected
    assert [argument.text for argument in result.overrides] == ["a=1"]
    assert result.problems == []


def test_multirun():
    assert split("-m", "a=1,2").multirun
    assert split("a=1,2", "--multirun").multirun
    assert not split("a=1").multirun


@pytest.mark.parametrize(
    ("texts", "override", "reason", "corrected"),
    [
        (["--config", "x.yaml"], "--config", "--config-path, --config-name or --config-dir", None),
        (["--trainer.logger=console"], "--trainer.logger=console", "without dashes", "trainer.logger=console"),
        (["--nproc", "8"], "--nproc", "no option", None),
        (["--config-name"], "--config-name", "needs a value", None),
        (["a=1", "--config-name", "n", "b=2"], "b=2", "before all overrides", None),
        (["--cfg", "nothing"], "--cfg", "invalid choice", None),
    ],
)
def test_what_hydras_command_line_refuses(texts, override, reason, corrected):
    [problem] = split(*texts).problems
    assert (problem.kind, problem.override, problem.corrected) == ("unknown-option", override, corrected)
    assert reason in problem.reason


def test_the_command_line_agrees_with_hydras(monkeypatch):
    from hydra._internal.utils import get_args_parser

    words = [
        "a=1",
        "b=2",
        "--config-name",
        "--config-name=n",
        "-cn",
        "n",
        "-m",
        "--config",
        "--nope",
        "--cfg",
        "job",
        "-x",
        "--",
        "-r",
    ]
    for first in words:
        for second in words:
            for third in words:
                texts = [first, second, third]
                accepted = True
                try:
                    parser = get_args_parser()
                    monkeypatch.setattr(parser, "error", lambda message: (_ for _ in ()).throw(ValueError(message)))
                    parser.parse_args(texts)
                except ValueError:
                    accepted = False
                assert (split(*texts).problems == []) == accepted, texts


def test_words_that_may_set_anything_are_kept_apart():
    result = split_hydra_arguments(
        [
            Argument("a=1"),
            Argument(UNKNOWN, None, "$@"),
            Argument(f"+{UNKNOWN}=1", None, "k"),
            Argument(f"b={UNKNOWN}", None, "v"),
        ]
    )
    assert [argument.text for argument in result.overrides] == ["a=1", f"b={UNKNOWN}"]
    assert [argument.unknown for argument in result.unknown] == ["$@", "k"]


def test_options_keep_their_place():
    place = Location("run.sh", 7)
    result = split_hydra_arguments([Argument("--config-name=n", place)])
    assert result.given["config_name"].location == place


@pytest.mark.parametrize(
    ("text", "column", "character", "reason"),
    [
        ("trainer.experiment_name=lr1e-6_bs=64", 34, "=", "unquoted"),
        ("trainer.experiment_name=a(b)", 26, "(", "function"),
        ("trainer.experiment_name=qwen3_4b_grpo_8npu}", 43, "}", "closes nothing"),
        ("trainer.experiment_name=实验", 25, "实", "unquoted"),
        ("trainer.logger=[“console”]", 17, "“", "ASCII has '\"'"),
        ("trainer.logger=[console，wandb]", 24, "，", "ASCII has ','"),
        ("trainer.logger=['console'", 16, "[", "not closed"),
        ("trainer.logger=[console, 'wandb]", 26, "'", "quote"),
        ("trainer.experiment_name=a\u00a0b", 26, "\u00a0", "no-break space"),
        ("trainer.experiment_name=a\nb", 26, "\n", "line break"),
        ("trainer.experiment_name=a\u200bb", 26, "\u200b", "zero-width"),
        ("trainer.lo gger=a", 11, " ", "in a key"),
        ("trainer.experiment_name=${oc.env:X", 26, "{", "not closed"),
        ("trainer.logger=[a=b]", 18, "=", "element of the list"),
        ("trainer.logger＝console", 15, "＝", "equals sign"),
    ],
)
def test_the_character_at_fault_is_named_with_its_column(text, column, character, reason):
    refusal = parse_override(Argument(text))
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.column, refusal.character) == ("grammar", column, character)
    assert reason in refusal.reason
    assert text[column - 1] == character


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("'wandb']", "split at a space"),
        ("  ", "backslash"),
        ("trainer.logger", "key=value"),
        ("trainer.name=" + "[" * 200, "nested deeper"),
        ("+" + "a." * 200 + "b=1", "nested deeper"),
    ],
)
def test_what_has_no_single_character_at_fault(text, reason):
    refusal = parse_override(Argument(text))
    assert isinstance(refusal, Refusal)
    assert refusal.column is None
    assert reason in refusal.reason


@pytest.mark.parametrize("text", ["a=\udcff", 'a="\udcff"', "\udcff=1", "--\udcff"])
def test_arguments_that_are_not_utf8_become_printable(text):
    result = split(text)
    for argument in result.overrides:
        parsed = parse_override(argument)
        (parsed.problem(None).override if isinstance(parsed, Refusal) else str(parsed.override.value())).encode()
    for problem in result.problems:
        problem.override.encode()


@given(st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_text_is_parsed_or_refused_as_hydra_does(text):
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    text = "a=" + text.replace(UNKNOWN, "")
    [argument] = split_hydra_arguments([Argument(text)]).overrides
    parsed = parse_override(argument)
    try:
        expected = OverridesParser.create().parse_override(argument.text)
    except HydraException:
        assert isinstance(parsed, Refusal)
        assert parsed.reason
    else:
        assert isinstance(parsed, Given)
        assert repr(parsed.override.value()) == repr(expected.value())


def test_a_credential_never_stands_in_a_problem():
    key = "wandb_v1_" + "k" * 40
    refusal = parse_override(Argument(f"+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY={key}="))
    assert isinstance(refusal, Refusal)
    problem = refusal.problem(refusal.candidates[0])
    assert "k" * 10 not in repr(problem)


def test_more_than_any_launch_has_is_refused():
    refuse_excess([Argument("a=1")] * MAX_ARGUMENTS)
    with pytest.raises(BadInput, match="arguments"):
        refuse_excess([Argument("a=1")] * (MAX_ARGUMENTS + 1))
    with pytest.raises(BadInput, match="2 MB"):
        refuse_excess([Argument("a=" + "x" * 1_100_000)] * 2)
    with pytest.raises(BadInput, match="elements"):
        refuse_excess([Argument("a=[" + "x," * 10_001)])
