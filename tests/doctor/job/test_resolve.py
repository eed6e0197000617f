"""The effective job: which configuration it has, what each value is and where it came from."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job.command import NotAVerlLaunch
from verl_doctor.job.model import UNKNOWN, Argument, Job, Request, Source, Variable
from verl_doctor.job.resolve import resolve_job
from verl_doctor.registry import Undetermined
from verl_doctor.report import Location

KEY = "0123456789abcdef0123456789abcdef01234567"


def resolve(command="", *overrides, directory="/", environment=None, **options) -> Job:
    source = Source("shell", "environment")
    variables = {
        name: value if isinstance(value, Variable) else Variable(name, value, source)
        for name, value in (environment or {}).items()
    }
    return resolve_job(
        Request(
            command=[Argument(word, Location("run.sh", number)) for number, word in enumerate(shlex.split(command), 1)],
            overrides=[text if isinstance(text, Argument) else Argument(text) for text in overrides],
            directory=str(directory),
            environment=variables,
            **options,
        )
    )


@pytest.fixture
def verl(verl_root):
    return {"verl_path": verl_root}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_launch_command(verl):
    command = f"""python3 -m verl.trainer.main_ppo trainer.logger='["console","mlflow"]' trainer.experiment_name=a
        trainer.experiment_name=b +ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY={KEY} +trainer.wandb_proxy=http://u:pw@h:1"""
    job = resolve(command, **verl)
    assert (job.entry, job.kind, job.config_name, job.exact, job.problems) == (
        "verl.trainer.main_ppo",
        "ppo",
        "ppo_trainer",
        True,
        [],
    )
    assert job.loggers == ["console", "mlflow"]
    assert len(job.settings) > 900
    assert str(job.settings["trainer.logger"].source) == "override (run.sh:4)"
    assert [(setting.value, setting.source.location.line) for setting in job.shadowed] == [("a", 5)]
    assert job.appended == ["ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY", "trainer.wandb_proxy"]
    assert job.get("trainer.default_local_dir") == "checkpoints/verl_examples/b"
    default = job.settings["trainer.default_local_dir"].source
    assert (default.kind, default.text, default.location.file) == (
        "verl-default",
        "default of verl 0.9.1",
        "verl/trainer/config/ppo_trainer.yaml",
    )
    assert (
        job.settings["actor_rollout_ref.rollout.trace.backend"].source.location.file
        == "verl/trainer/config/rollout/rollout.yaml"
    )
    assert job.get("trainer.wandb_proxy") == "http://***@h:1"
    assert KEY not in repr(job)
    assert "pw@" not in repr(job)


def test_the_line_of_a_default_is_right(verl, verl_root):
    job = resolve("", "trainer.nnodes=2", **verl)
    for key in ("trainer.logger", "trainer.test_freq", "data.train_batch_size", "actor_rollout_ref.rollout.agent.num_workers"):
        location = job.settings[key].source.location
        line = Path(verl_root, location.file).read_text().splitlines()[location.line - 1]
        assert line.strip().startswith(key.rpartition(".")[2] + ":"), (key, line)


MISUSE = [
    ("trainer.wandb_proxy=http://p:1", "not-in-struct", "+trainer.wandb_proxy=http://p:1"),
    ("trainer.logger=console,wandb", "ambiguous-list", "trainer.logger=[console,wandb]"),
    ("trainer.logger=['console'", "grammar", "trainer.logger=['console']"),
    ("trainer.experiment_name=a=b", "grammar", 'trainer.experiment_name="a=b"'),
    ("trainer.experiment_name=a(b)", "grammar", 'trainer.experiment_name="a(b)"'),
    ("+trainer.project_name=x", "append-existing", "trainer.project_name=x"),
    ("trainer.val_generations_to_log_to_wandb=10", "not-in-struct", "trainer.log_val_generations=10"),
    ("trainer.rl_insight.url=x", "not-in-struct", "+trainer.rl_insight.url=x"),
    ("ray_init.num_cpus=8", "not-in-struct", "ray_kwargs.ray_init.num_cpus=8"),
    ("trainer.max_epochs=3", "not-in-struct", "trainer.total_epochs=3"),
    ("trainer.loger=[console]", "not-in-struct", "trainer.logger=[console]"),
    ("rollout.trace.backend=mlflow", "not-in-struct", "actor_rollout_ref.rollout.trace.backend=mlflow"),
    ("actor_rollout_ref.actor.model_engine=megatron", "not-in-struct", "model_engine=megatron"),
    ("ray_kwargs.ray_init.runtime_env.env_vars.A=1", "not-in-struct", "+ray_kwargs.ray_init.runtime_env.env_vars.A=1"),
    ("actor_rollout_ref.rollout.trace.max_text_length=5", "not-in-struct", None),
    ("trainer.swanlab.save_dir=x", "not-in-struct", None),
    ("model_engine=megatrn", "missing-group", "model_engine=megatron"),
]


def test_typical_misuse_is_refused_all_at_once_and_the_corrections_compose(verl, verl_root, hydra_compose):
    problems = {problem.override: problem for problem in resolve("", *[row[0] for row in MISUSE], **verl).problems}
    assert {(text, problem.kind, problem.corrected) for text, problem in problems.items()} == set(MISUSE)
    folder = f"{verl_root}/verl/trainer/config"
    for text, _, _ in MISUSE[:7]:
        assert not hydra_compose(folder, "ppo_trainer", [text])[0]
    accepted, error = hydra_compose(folder, "ppo_trainer", [corrected for _, _, corrected in MISUSE if corrected])
    assert accepted, error


WRONG_BUT_ACCEPTED = {
    "trainer.logger='[console,wandb]'": "[console,wandb]",
    "trainer.project_name=": "",
    "trainer.log_val_generations=ten": "ten",
    "trainer.experiment_name=20250101_1": 202501011,
    "trainer.default_hdfs_dir=1e5": 1e5,
    "trainer.resume_mode=null": None,
    "actor_rollout_ref.rollout.trace.backend=wandb": "wandb",
}


def test_what_hydra_accepts_though_it_is_wrong_is_not_refused_here(verl):
    job = resolve("", *WRONG_BUT_ACCEPTED, **verl)
    assert job.problems == []
    assert {text: job.get(text.partition("=")[0]) for text in WRONG_BUT_ACCEPTED} == WRONG_BUT_ACCEPTED


def test_a_deleted_key_is_gone(verl):
    job = resolve("", "~trainer.logger", **verl)
    assert job.problems == []
    assert "trainer.logger" not in job.settings


def test_all_values_agree_with_hydra_resolved(verl, verl_root):
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    overrides = [
        "model_engine=megatron",
        "trainer.logger=[console,file]",
        "trainer.experiment_name=x",
        "data.train_files=[a,b]",
        "global_profiler.steps=[1,2]",
        "++a.b.c={d:1}",
    ]
    with initialize_config_dir(f"{verl_root}/verl/trainer/config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides)
    expected = {}

    def collect(value, prefix):
        for name, item in value.items():
            if isinstance(item, dict) and item:
                collect(item, f"{prefix}{name}.")
            else:
                expected[prefix + name] = item

    collect(OmegaConf.to_container(config, resolve=True), "")
    job = resolve("", *overrides, **verl)
    assert {key: setting.value for key, setting in job.settings.items()} == expected
    assert not [setting for setting in job.settings.values() if setting.unknown]


def test_the_environment_passed_in_is_what_interpolations_read(verl, monkeypatch):
    monkeypatch.setenv("WHERE", "this process")
    job = resolve("", "trainer.project_name=${oc.env:WHERE}", environment={"WHERE": "the job"}, **verl)
    assert job.get("trainer.project_name") == "the job"
    assert job.get("trainer.default_local_dir") == "checkpoints/the job/gsm8k"


def test_what_only_the_running_job_knows_is_unknown_not_wrong(verl):
    unseen = Variable("LATER", "", Source("script", "run.sh"), "set by a program")
    job = resolve(
        "",
        "trainer.project_name=${oc.env:NOT_SET}",
        "trainer.experiment_name=${now:%Y}",
        "trainer.default_hdfs_dir=${oc.env:LATER}",
        environment={"LATER": unseen},
        **verl,
    )
    assert job.problems == []
    for key, reason in {
        "trainer.project_name": "NOT_SET",
        "trainer.experiment_name": "the time",
        "trainer.default_hdfs_dir": "set by a program",
        "trainer.default_local_dir": "NOT_SET",
    }.items():
        with pytest.raises(Undetermined, match=reason):
            job.get(key)


@pytest.mark.parametrize(
    "override",
    ["trainer.logger=${if: a, b}", "trainer.experiment_name=${trainer.nowhere}", "trainer.experiment_name=${oc.decode:'['}"],
)
def test_an_interpolation_that_cannot_work_is_a_problem(override, verl):
    [problem] = resolve("", override, **verl).problems
    assert (problem.kind, problem.key) == ("interpolation", override.partition("=")[0])
    assert problem.reason


def test_interpolations_run_nothing(verl, tmp_path):
    from omegaconf import OmegaConf

    ran = []
    OmegaConf.register_new_resolver("danger", lambda: ran.append(1) or "x", replace=True)
    try:
        job = resolve("", "trainer.experiment_name=${danger:}", **verl)
    finally:
        OmegaConf.clear_resolver("danger")
    assert ran == []
    assert job.settings["trainer.experiment_name"].unknown


def test_unknown_parts_of_a_script(verl):
    job = resolve(
        "",
        Argument(f"trainer.logger={UNKNOWN}", None, "$LOGGER comes from a program"),
        Argument(f"trainer.project_name=p_{UNKNOWN}", None, "$P is not set"),
        Argument(f"trainer.nope={UNKNOWN}", None, "x"),
        Argument(UNKNOWN, None, '"$@"'),
        **verl,
    )
    with pytest.raises(Undetermined, match="comes from a program") as raised:
        job.given_loggers  # noqa: B018 - reading it raises
    assert raised.value.essential
    with pytest.raises(Undetermined, match="not set"):
        job.get("trainer.default_local_dir")
    assert [problem.kind for problem in job.problems] == ["not-in-struct"]
    assert [argument.unknown for argument in job.unknown_arguments] == ['"$@"']
    assert job.exact


def test_an_unknown_choice_of_a_group_makes_the_job_inexact(verl):
    job = resolve(
        "", Argument(f"model_engine={UNKNOWN}", None, "x"), "actor_rollout_ref.actor.megatron.param_offload=True", **verl
    )
    assert (job.exact, job.problems) == (False, [])


def test_an_unknown_configuration_makes_the_job_inexact(verl):
    for option in ("--config-name", "--config-path", "--config-dir"):
        command = [Argument(word) for word in ("python", "-m", "verl.trainer.main_ppo", f"{option}={UNKNOWN}", "a.b=1")]
        job = resolve_job(Request(command=command, directory="/", **verl))
        assert (job.exact, job.problems, job.get("a.b")) == (False, [], 1), option


@pytest.mark.parametrize(
    ("entry", "kind", "name", "key", "value"),
    [
        ("verl.trainer.sft_trainer", "sft", "sft_trainer_engine", "trainer.total_epochs", 4),
        ("verl.trainer.sft_trainer_ray", "sft_ray", "sft_trainer_engine", "trainer.nnodes", 1),
        ("verl.experimental.fully_async_policy.fully_async_main", "fully_async", "fully_async_ppo_trainer", "rollout.n", 4),
        ("verl.experimental.one_step_off_policy.main_ppo", "one_step_off", "one_step_off_ppo_trainer", "rollout.nnodes", 1),
        ("verl.trainer.main_eval", "evaluation", "evaluation", "data.path", "/tmp/math_Qwen2-7B-Instruct.parquet"),
    ],
)
def test_every_entry_point_composes_without_importing_verl(entry, kind, name, key, value, verl):
    job = resolve(f"torchrun --nproc_per_node=8 -m {entry}", **verl)
    assert (job.kind, job.config_name, job.exact, job.problems) == (kind, name, True, [])
    assert job.get(key) == value


def test_an_entry_that_this_verl_lacks_is_no_problem_of_the_configuration(verl):
    job = resolve("torchrun -m verl.trainer.fsdp_sft_trainer trainer.logger=console", **verl)
    assert (job.kind, job.exact, job.problems, job.loggers) == ("sft", False, [], ["console"])


def test_without_verl_what_is_known_is_used(tmp_path):
    job = resolve(
        "python -m verl.trainer.main_ppo trainer.nope=1 trainer.logger=a,b trainer.project_name=p",
        verl_version="0.5.0",
        directory=tmp_path,
    )
    assert (job.exact, job.verl.version, job.verl.origin) == (False, "0.5.0", "built-in")
    assert [problem.kind for problem in job.problems] == ["ambiguous-list"]
    assert (job.get("trainer.nope"), job.get("trainer.default_local_dir")) == (1, "checkpoints/p/gsm8k")
    source = job.settings["trainer.test_freq"].source
    assert (source.kind, source.text) == ("built-in", "built-in knowledge of verl 0.5.0")


@pytest.mark.parametrize(
    "form", ["--config-path={dir} --config-name=mine", "--config-path {dir} -cn mine.yaml", "-cp {dir} --config-name mine"]
)
def test_a_users_configuration(form, tmp_path, verl, verl_root):
    write(
        tmp_path / "conf/mine.yaml",
        "hydra:\n  searchpath:\n    - file://verl/trainer/config\ndefaults: [ppo_trainer, _self_]\n"
        "trainer:\n  project_name: mine\n  is_test: 1\n",
    )
    job = resolve(
        f"python -m verl.trainer.main_ppo {form.format(dir=tmp_path / 'conf')} trainer.is_test=2", directory=tmp_path, **verl
    )
    assert (job.exact, job.problems, job.get("trainer.is_test"), job.get("trainer.test_freq")) == (True, [], 2, -1)
    assert str(job.settings["trainer.project_name"].source) == "configuration file (conf/mine.yaml:6)"
    assert job.settings["trainer.logger"].source.location.file == "verl/trainer/config/ppo_trainer.yaml"


def test_verls_own_file_wins_over_what_it_comes_after(tmp_path, verl):
    write(tmp_path / "conf/early.yaml", "trainer: {project_name: early, mine: 1}\n")
    write(
        tmp_path / "conf/mine.yaml",
        "hydra: {searchpath: ['pkg://verl.trainer.config']}\ndefaults: [early, ppo_trainer, _self_]\n",
    )
    job = resolve("", config_path=str(tmp_path / "conf"), config_name="mine", directory=tmp_path, **verl)
    assert (job.get("trainer.project_name"), job.settings["trainer.project_name"].source.kind) == (
        "verl_examples",
        "verl-default",
    )
    assert job.settings["trainer.mine"].source.kind == "config-file"


def test_config_path_is_relative_to_the_module_as_in_hydra_main(tmp_path, verl):
    write(tmp_path / "config/ppo_trainer.yaml", "trainer: {logger: [file]}\n")
    job = resolve("python -m verl.trainer.main_ppo --config-path=config", directory=tmp_path, **verl)
    assert job.loggers == ["console", "wandb"]
    missing = resolve("python -m verl.trainer.main_ppo --config-path=conf", directory=tmp_path, **verl)
    assert [(problem.kind, problem.override) for problem in missing.problems] == [("config-not-found", "--config-path=conf")]
    assert not missing.exact


def test_a_missing_configuration_names_the_nearest(verl):
    job = resolve("python -m verl.trainer.main_ppo --config-name ppo_trianer trainer.logger=console", **verl)
    [problem] = job.problems
    assert (problem.kind, problem.corrected, problem.source.location.line) == (
        "config-not-found",
        "--config-name=ppo_trainer",
        4,
    )
    assert "megatron" in problem.reason
    assert (job.exact, job.loggers) == (False, ["console"])


def test_an_additional_folder(tmp_path, verl):
    write(tmp_path / "extra/model_engine/mine.yaml", "# @package _global_\nmodel_engine: dp\ntrainer: {project_name: extra}\n")
    job = resolve(
        "python -m verl.trainer.main_ppo --config-dir extra model_engine=dp +model_engine@x=mine", directory=tmp_path, **verl
    )
    assert job.exact
    missing = resolve("python -m verl.trainer.main_ppo --config-dir nowhere", directory=tmp_path, **verl)
    assert [problem.kind for problem in missing.problems] == ["config-not-found"]


def test_a_recipe_is_read_beside_verl(tmp_path, verl):
    write(
        tmp_path / "recipe/mine/main_mine.py",
        "import hydra\n@hydra.main(config_path='config', config_name='mine_trainer', version_base=None)\ndef main(c): ...\n",
    )
    write(
        tmp_path / "recipe/mine/config/mine_trainer.yaml",
        "hydra: {searchpath: ['file://verl/trainer/config']}\ndefaults: [ppo_trainer, _self_]\n"
        "trainer: {logger: [console, swanlab], extra: 1}\n",
    )
    job = resolve(
        "ray job submit --working-dir . -- python3 -m recipe.mine.main_mine trainer.extra=2 trainer.nope=1",
        directory=tmp_path,
        **verl,
    )
    assert (job.kind, job.config_name, job.exact, job.loggers) == ("recipe", "mine_trainer", True, ["console", "swanlab"])
    assert [problem.kind for problem in job.problems] == ["not-in-struct"]
    assert str(job.settings["trainer.logger"].source) == "configuration file (recipe/mine/config/mine_trainer.yaml:3)"


def test_a_recipe_that_cannot_be_seen_is_not_judged(tmp_path, verl):
    job = resolve(
        "python3 -m recipe.dapo.main_dapo trainer.own_key=1 trainer.logger=[console,wandb]", directory=tmp_path, **verl
    )
    assert (job.kind, job.exact, job.problems) == ("recipe", False, [])
    assert (job.loggers, job.get("trainer.own_key"), job.get("trainer.resume_mode")) == (["console", "wandb"], 1, "auto")


def test_a_package_that_cannot_be_seen_may_bring_any_option(tmp_path, verl):
    job = resolve(
        "python -m verl.trainer.main_ppo 'hydra.searchpath=[pkg://plugin.config]' actor@actor_rollout_ref.actor=mlite "
        "actor_rollout_ref.actor.engine.tp=4 trainer.logger=a,b",
        **verl,
    )
    assert not job.exact
    assert [problem.kind for problem in job.problems] == ["ambiguous-list"]
    assert job.get("actor_rollout_ref.actor.engine.tp") == 4


def test_hydras_own_settings(verl):
    job = resolve("", "hydra.run.dir=/data/out", "hydra.job.chdir=True", **verl)
    assert (job.problems, job.get("hydra.run.dir"), job.get("hydra.job.chdir")) == ([], "/data/out", True)
    assert len(job.under("hydra")) == 2


def test_a_swept_key_is_unknown(verl):
    job = resolve("python -m verl.trainer.main_ppo -m trainer.experiment_name=a,b trainer.nnodes=2", **verl)
    assert (job.problems, job.get("trainer.nnodes")) == ([], 2)
    with pytest.raises(Undetermined, match="several"):
        job.get("trainer.experiment_name")


def test_a_list_element_set_by_itself_is_the_users(verl):
    job = resolve("", "trainer.logger.1=mlflow", **verl)
    assert (job.loggers, job.settings["trainer.logger"].source.kind) == (["console", "mlflow"], "override")


def test_a_credential_never_leaves_by_any_way(verl):
    job = resolve(
        f"env WANDB_API_KEY={KEY} python -m verl.trainer.main_ppo +a.api_key={KEY} +b={KEY} +c=[{KEY}] +d={{token:{KEY}}} "
        f"trainer.nope={KEY} trainer.name={KEY}=",
        **verl,
    )
    assert KEY not in repr(job)
    assert job.get("a.api_key").reveal() == KEY
    assert job.get("d.token").reveal() == KEY


def test_other_commands_and_excess_are_refused():
    with pytest.raises(NotAVerlLaunch):
        resolve("ls -l")
    with pytest.raises(BadInput, match="arguments"):
        resolve("", *["a=1"] * 10_000)


def test_many_overrides_are_handled(verl):
    job = resolve(
        "",
        *[f"+mine.key{number}={number}" for number in range(1000)],
        *["trainer.nope=1"] * 500,
        *["trainer.name=a=b"] * 500,
        **verl,
    )
    assert job.get("mine.key999") == 999
    assert len(job.problems) == 1000


def test_nothing_of_the_job_is_imported(verl_root, tmp_path):
    code = f"""
import sys
from verl_doctor.job.model import Argument, Request
from verl_doctor.job.resolve import resolve_job
from hydra.core.global_hydra import GlobalHydra
job = resolve_job(Request(overrides=[Argument("trainer.nnodes=2")], directory={str(tmp_path)!r}, verl_path={verl_root!r}))
assert job.exact and not job.problems
assert not {{"verl", "torch", "ray", "wandb", "mlflow"}} & set(sys.modules), "imported"
assert not GlobalHydra.instance().is_initialized()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_program_of_the_users_own_may_read_its_command_line_in_its_own_way(tmp_path, verl):
    arguments = "trainer.experiment_name=a=b trainer.logger=console trainer.nnodes=2 --my-option"
    write(tmp_path / "train.py", "import my_launcher\nmy_launcher.go()\n")
    job = resolve(f"python train.py {arguments}", directory=tmp_path, **verl)
    assert (job.kind, job.problems, job.loggers, job.get("trainer.nnodes")) == ("recipe", [], ["console"], 2)
    write(
        tmp_path / "train.py",
        "import hydra\n@hydra.main(config_path='.', config_name='mine', version_base=None)\ndef main(c): ...\n",
    )
    write(tmp_path / "mine.yaml", "trainer: {logger: x, nnodes: 1, experiment_name: e}\n")
    job = resolve(f"python train.py {arguments}", directory=tmp_path, **verl)
    assert (job.exact, [problem.kind for problem in job.problems]) == (True, ["unknown-option", "grammar"])
