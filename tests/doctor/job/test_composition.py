"""Composition agrees with Hydra: the same refusals, the same values; and it says what was meant."""

import threading

import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer

from verl_doctor.job.composition import Cannot, PrimaryNotFound, compose, corrections, overlay
from verl_doctor.job.folders import DiskFolder
from verl_doctor.job.hydra_files import FolderSource
from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.overrides import Given, parse_override

ACCEPTED = r"""
trainer.logger=[console]
trainer.logger=['console','wandb']
trainer.logger=["console", "wandb"]
trainer.logger='[console,wandb]'
trainer.logger=
trainer.logger=null
trainer.logger.0=x
trainer.logger=[]
trainer.logger=[a,[b,c]]
trainer.logger=[a b, c d]
trainer.name={a:b,c:[1,2]}
trainer.name=a b
trainer.name=a:b/c@d%e?f|g
trainer.name="中文"
trainer.name=a\=b
trainer.name=${trainer.n}
trainer.name=${oc.env:X,y}
trainer.name=1e-6
trainer.name=20250101_1
trainer.name=0x10
trainer.name=TRUE
trainer.name=str(5)
trainer.name='it\'s'
+trainer.nope=1
++trainer.nope=1
++trainer.name=1
+trainer.logger=[x]
+trainer.nested={q:1}
trainer.nested={deep:{v:2}}
trainer.nested.deep=3
+trainer.empty.x=1
+trainer.name.x=1
~trainer.name
~trainer.name=x
~trainer
engine=b
actor@model.actor=b_actor
extra=e
model={actor:{lr:7}}
hydra.run.dir=/x
hydra.job.chdir=True
hydra.output_subdir=null
hydra/job_logging=disabled
+hydra.job.env_set.X=1
trainer.n=???
trainer=null
""".strip().splitlines()

# override, kind, what is shown as correction
REFUSED = [
    ("trainer.logger=console,wandb", "ambiguous-list", "trainer.logger=[console,wandb]"),
    ("trainer.logger=a, b", "ambiguous-list", "trainer.logger=[a, b]"),
    ("trainer.logger=['console'", "grammar", "trainer.logger=['console']"),
    ("trainer.logger=[a=b,c]", "grammar", 'trainer.logger=["a=b","c"]'),
    ("trainer.logger=[“console”,“wandb”]", "grammar", 'trainer.logger=["console","wandb"]'),
    ("trainer.logger=[console，wandb]", "grammar", "trainer.logger=[console,wandb]"),
    ("trainer.logger＝console", "grammar", "trainer.logger=console"),
    ("trainer.name=lr1e-6_bs=64", "grammar", 'trainer.name="lr1e-6_bs=64"'),
    ("trainer.name=a(b)", "grammar", 'trainer.name="a(b)"'),
    ("trainer.name=qwen}", "grammar", 'trainer.name="qwen}"'),
    ("trainer.name={a}", "grammar", 'trainer.name="{a}"'),
    ("trainer.name=实验", "grammar", 'trainer.name="实验"'),
    ("trainer.name=a#b", "grammar", 'trainer.name="a#b"'),
    ("trainer.name=a;b", "grammar", 'trainer.name="a;b"'),
    ("trainer.name=a~b", "grammar", 'trainer.name="a~b"'),
    ("trainer.name=a'b", "grammar", 'trainer.name="a\'b"'),
    ('trainer.name="a', "grammar", 'trainer.name="a"'),
    ("trainer.name=${oc.env:X", "grammar", "trainer.name=${oc.env:X}"),
    ("trainer.name =a", "grammar", "trainer.name=a"),
    ("wandb']", "grammar", None),
    (" ", "grammar", None),
    ("=x", "grammar", None),
    ("trainer.name=range(1,3)", "other", 'trainer.name="range(1,3)"'),
    ("trainer.nme=1", "not-in-struct", None),
    ("trainer.loger=1", "not-in-struct", "trainer.logger=1"),
    ("nested.deep.v=2", "not-in-struct", "trainer.nested.deep.v=2"),
    ("trainer.nested={q:1}", "not-in-struct", "+trainer.nested={q:1}"),
    ("trainer.name.x=1", "not-in-struct", None),
    ("+trainer.name=1", "append-existing", "trainer.name=1"),
    ("trainer.logger.x=1", "wrong-type", None),
    ("trainer.logger={}", "wrong-type", None),
    ("~trainer.nope", "delete-missing", None),
    ("~trainer.name=y", "delete-missing", "~trainer.name"),
    ("engine=c", "missing-group", None),
    ("actor@model.actor=b_acter", "missing-group", "actor@model.actor=b_actor"),
    ("actor=b_actor", "missing-group", "actor@model.actor=b_actor"),
    ("foo@bar=baz", "missing-group", None),
    ("hydra.foo=1", "not-in-struct", None),
    ("hydra.job.chdir=maybe", "wrong-type", None),
]


def composed(folder, overrides, **options):
    given, refusals = [], []
    for text in overrides:
        parsed = parse_override(text if isinstance(text, Argument) else Argument(text))
        (given if isinstance(parsed, Given) else refusals).append(parsed)
    result = compose(
        "main",
        [FolderSource("main", DiskFolder(folder, folder), is_user=True)],
        given,
        **{"locate": lambda path: None} | options,
    )
    result.refusals = [*refusals, *result.refusals]
    return result


def values(result):
    config = OmegaConf.to_container(result.config, resolve=False)
    config.pop("hydra", None)
    return config


@pytest.mark.parametrize("override", ACCEPTED)
def test_accepts_what_hydra_accepts_with_the_same_values(override, tree, hydra_compose):
    accepted, expected = hydra_compose(tree, "main", [override])
    assert accepted, expected
    result = composed(tree, [override])
    assert result.refusals == []
    assert repr(values(result)) == repr(expected)


@pytest.mark.parametrize(("override", "kind", "correction"), REFUSED)
def test_refuses_what_hydra_refuses_and_its_corrections_compose(override, kind, correction, tree, hydra_compose):
    accepted, _ = hydra_compose(tree, "main", [override])
    assert not accepted
    [(refusal, corrected)] = corrections(composed(tree, [override]))
    assert (refusal.kind, corrected) == (kind, correction)
    assert refusal.reason
    if corrected is not None:
        assert hydra_compose(tree, "main", [corrected])[0]


def test_one_refusal_does_not_hide_others_nor_stop_the_rest(tree):
    result = composed(tree, ["trainer.nope=1", "trainer.name=a=b", "trainer.n=5", "+trainer.n=6", "trainer.name=last"])
    assert [refusal.kind for refusal in result.refusals] == ["grammar", "not-in-struct", "append-existing"]
    assert (result.config.trainer.n, result.config.trainer.name) == (5, "last")


def test_a_refused_override_changes_nothing(tree):
    assert composed(tree, ["trainer.name.x=1"]).config.trainer.name == "x"


def test_a_refused_choice_is_followed_as_it_was_meant(tree):
    result = composed(tree, ["actor@model.actor=b_acter", "model.actor.only_b=3"])
    assert [refusal.kind for refusal in result.refusals] == ["missing-group"]


def test_keys_are_not_judged_when_a_refused_choice_leaves_them_open(tree):
    result = composed(tree, ["engine=zzz", "model.actor.only_b=3"])
    assert [refusal.kind for refusal in result.refusals] == ["missing-group"]


def test_repeats_are_pairs_and_the_last_wins(tree):
    result = composed(tree, ["trainer.name=a", "trainer.name=b", "engine=b", "engine=a"])
    assert [(earlier.text, later.text) for earlier, later in result.replaced] == [
        ("engine=b", "engine=a"),
        ("trainer.name=a", "trainer.name=b"),
    ]
    assert result.owners["trainer.name"].text == "trainer.name=b"


def test_merged_mappings_replace_only_what_they_share(tree):
    result = composed(tree, ["+trainer.nested={q:1}", "+trainer.nested={r:2}", "+trainer.nested={q:3}"])
    assert [(earlier.text, later.text) for earlier, later in result.replaced] == [
        ("+trainer.nested={q:1}", "+trainer.nested={q:3}")
    ]


def test_an_unknown_value_takes_the_place_of_any(tree):
    result = composed(
        tree, [Argument(f"trainer.name={UNKNOWN}(", None, "why"), Argument(f"trainer.nope={UNKNOWN}", None, "why")]
    )
    assert UNKNOWN in result.config.trainer.name
    assert [refusal.kind for refusal in result.refusals] == ["not-in-struct"]


def test_adding_an_unknown_value_may_be_a_merge(tree):
    assert composed(tree, [Argument(f"+trainer.logger={UNKNOWN}", None, "why")]).refusals == []


def test_an_unknown_choice_of_a_group_leaves_the_keys_open(tree):
    result = composed(tree, [Argument(f"engine={UNKNOWN}", None, "why"), "model.actor.only_b=3"])
    assert not result.complete
    assert result.refusals == []


def test_with_multirun_a_sweep_is_not_refused(tree):
    result = composed(tree, ["trainer.n=1,2"], multirun=True)
    assert result.refusals == []
    assert [given.key for given in result.swept] == ["trainer.n"]


def test_options_of_hydra_that_a_plugin_may_bring_are_not_judged(tree):
    assert composed(tree, ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu"]).refusals == []


def test_the_search_path_of_the_primary_configuration_and_of_an_override(tmp_path, tree):
    (tmp_path / "main.yaml").write_text("hydra:\n  searchpath: [file://elsewhere]\ndefaults: [actor/a_actor, _self_]\nx: 1\n")
    asked = []

    def locate(path):
        asked.append(path)
        return FolderSource("path", DiskFolder(tree, tree), is_user=False)

    assert composed(str(tmp_path), ["x=2"], locate=locate).config.actor.lr == 1
    composed(str(tmp_path), ["hydra.searchpath=[file://other]"], locate=locate)
    assert asked == ["file://elsewhere", "file://other"]
    with pytest.raises(Cannot, match="list"):
        composed(str(tmp_path), ["hydra.searchpath=x"], locate=locate)


def test_files_that_do_not_compose_and_a_missing_primary_are_told_apart(tmp_path):
    (tmp_path / "main.yaml").write_text("defaults: [nowhere, _self_]\n")
    with pytest.raises(Cannot, match="nowhere"):
        composed(str(tmp_path), [])
    (tmp_path / "main.yaml").rename(tmp_path / "mine.yaml")
    with pytest.raises(PrimaryNotFound) as missing:
        composed(str(tmp_path), [])
    assert missing.value.near == ["mine"]


def test_hydras_node_in_the_primary_file_is_judged_by_hydra(tmp_path, hydra_compose):
    (tmp_path / "main.yaml").write_text("hydra:\n  run:\n    dir: /x\nx: 1\n")
    assert composed(str(tmp_path), ["hydra.run.dir=/y", "x=2"]).refusals == []
    (tmp_path / "main.yaml").write_text("hydra:\n  no_such_key: 1\nx: 1\n")
    assert not hydra_compose(tmp_path, "main", [])[0]
    with pytest.raises(Cannot):
        composed(str(tmp_path), [])


def test_overlay_sets_everything_and_refuses_only_what_no_configuration_takes(tree):
    given = [
        parse_override(Argument(text)) for text in ("a.b=1", "~zzz", "trainer.logger=x,y", "model=foo", "trainer.name=new")
    ]
    result = overlay(composed(tree, []), given)
    assert (result.config.a.b, result.config.trainer.name, result.config.model.actor.lr) == (1, "new", 1)
    assert [refusal.kind for refusal in result.refusals] == ["ambiguous-list"]


def test_nothing_global_stays_changed(tree):
    from hydra import version

    base = version.VersionBase.instance().version_base
    registered = BaseContainer._resolvers
    composed(tree, ["trainer.nope=1"], resolvers={})
    assert version.VersionBase.instance().version_base == base
    assert BaseContainer._resolvers is registered
    assert not GlobalHydra.instance().is_initialized()


def test_two_threads_compose_at_once(tree):
    found = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(composed(tree, [f"trainer.n={n}"]).config.trainer.n)) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]


def test_overlay_does_not_call_appended_what_was_not(tree):
    given = [parse_override(Argument(text)) for text in ("trainer.n=1", "+trainer.q=2")]
    assert overlay(composed(tree, []), given).appended == ["trainer.q"]
