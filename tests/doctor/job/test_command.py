from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job.command import Launch, NotAVerlLaunch, parse_command
from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.report import Location
from verl_doctor.secrets import Secret

PPO = "verl.trainer.main_ppo"
SFT = "verl.trainer.sft_trainer"
ASYNC = "verl.experimental.fully_async_policy.fully_async_main"
SUBMIT = ["ray job submit"]
TWO = "trainer.logger=[console] trainer.nnodes=1"


def words(text: str) -> list[Argument]:
    return [Argument(word) for word in shlex.split(text)]


def parse(text: str) -> Launch:
    return parse_command(words(text))


def assigned(launch: Launch) -> dict[str, str]:
    return {variable.name: str(variable.value) for variable in launch.assignments}


@pytest.mark.parametrize(
    ("command", "launchers", "entry"),
    [
        (f"python -m {PPO} a.b=1", ["python"], PPO),
        (f"python3 -u -m {PPO} a.b=1", ["python3"], PPO),
        (f"$ A=1 python3 -m {PPO} a.b=1", ["python3"], PPO),
        (f"python3.11 -X faulthandler -m {PPO} a.b=1", ["python3.11"], PPO),
        (f"python3 -Xfaulthandler -W ignore -OO -m {PPO} a.b=1", ["python3"], PPO),
        (f"python3 -um {PPO} a.b=1", ["python3"], PPO),
        (f"python3 -m{PPO} a.b=1", ["python3"], PPO),
        (f"python3 --check-hash-based-pycs never -m {PPO} a.b=1", ["python3"], PPO),
        (f"/opt/conda/envs/verl/bin/python -m {PPO} a.b=1", ["python"], PPO),
        ("python verl/trainer/main_ppo.py a.b=1", ["python"], PPO),
        ("python /data/me/verl/verl/trainer/main_ppo.py a.b=1", ["python"], PPO),
        (f"python ./{ASYNC.replace('.', '/')}.py a.b=1", ["python"], ASYNC),
        ("python /data/verl/recipe/dapo/main_dapo.py a.b=1", ["python"], "recipe.dapo.main_dapo"),
        ("verl/trainer/main_ppo.py a.b=1", [], PPO),
        ("python -m recipe.dapo.main_dapo --config-name=dapo_megatron_trainer a.b=1", ["python"], "recipe.dapo.main_dapo"),
        ("python -m verl.trainer.main_grpo a.b=1", ["python"], "verl.trainer.main_grpo"),
        (f"python my_main.py {TWO}", ["python"], "my_main.py"),
        (f"python -m my.main {TWO}", ["python"], "my.main"),
        (f"python examples/split_placement/main_ppo_split.py {TWO}", ["python"], "examples/split_placement/main_ppo_split.py"),
        (f"python /src/verl/examples/split/main.py {TWO}", ["python"], "/src/verl/examples/split/main.py"),
        (f"torchrun --standalone --nnodes=1 --nproc_per_node=8 -m {SFT} a.b=1", ["torchrun"], SFT),
        (f"torchrun --nproc-per-node 8 --nnodes 2 --node_rank 0 --master_addr h -m {SFT} a.b=1", ["torchrun"], SFT),
        (f"torchrun -m --nproc-per-node 8 {SFT} a.b=1", ["torchrun"], SFT),
        (f"torchrun --module --rdzv-backend c10d -- {SFT} a.b=1", ["torchrun"], SFT),
        ("torchrun --nproc_per_node 2 verl/trainer/sft_trainer.py a.b=1", ["torchrun"], SFT),
        (f"torchrun --nnodes=1 -m verl_mlite.launch {SFT} a.b=1", ["torchrun", "verl_mlite.launch"], SFT),
        (f"python -m torch.distributed.run --nproc_per_node 2 -m {SFT} a.b=1", ["python", "torch.distributed.run"], SFT),
        (f"python -m torch.distributed.launch --use_env -m {SFT} a.b=1", ["python", "torch.distributed.launch"], SFT),
        (f"python -m cProfile -o out.prof -m {PPO} a.b=1", ["python", "cProfile"], PPO),
        (f"python -m debugpy --listen 5678 --wait-for-client -m {PPO} a.b=1", ["python", "debugpy"], PPO),
        (f"uv run --frozen --all-packages --extra vllm --extra fsdp python3 -m {PPO} a.b=1", ["uv", "python3"], PPO),
        (f"uv run --python python3.11 --isolated --with wandb python -m {PPO} a.b=1", ["uv", "python"], PPO),
        (f"uv run --no-sync -m {PPO} a.b=1", ["uv"], PPO),
        ("uv run verl/trainer/main_ppo.py a.b=1", ["uv"], PPO),
        (f"uv run --directory /src --env-file .env torchrun --nnodes=1 -m {SFT} a.b=1", ["uv", "torchrun"], SFT),
        (f"ray job submit -- python3 -m {PPO} a.b=1", [*SUBMIT, "python3"], PPO),
        (f"ray job submit --no-wait --address h --working-dir . -- python3 -m {PPO} a.b=1", [*SUBMIT, "python3"], PPO),
        (f"ray job submit --metadata-json={{}} -v -- env A=1 python -m {PPO} a.b=1", [*SUBMIT, "env", "python"], PPO),
        (f"ray job submit --entrypoint-num-cpus 1 --submission-id x -- python -m {PPO} a.b=1", [*SUBMIT, "python"], PPO),
        ("ray job submit python verl/trainer/main_ppo.py a.b=1", [*SUBMIT, "python"], PPO),
        (f"srun --overlap --nodes=1 --ntasks=1 -w node0 python -m {PPO} a.b=1", ["srun", "python"], PPO),
        (f"srun -N1 apptainer run --nv --bind /a:/b verl.sif python3 -m {PPO} a.b=1", ["srun", "apptainer", "python3"], PPO),
        (f"srun --container-name=ray env -u ROCR_VISIBLE_DEVICES A=1 python3 -m {PPO} a.b=1", ["srun", "env", "python3"], PPO),
        (f"sbatch -N 2 --wrap 'python -m {PPO} a.b=1'", ["sbatch", "python"], PPO),
        (f"sbatch '--wrap=python -m {PPO} a.b=1'", ["sbatch", "python"], PPO),
        (f"mpirun -np 8 -x WANDB_MODE=offline -H a,b python -m {SFT} a.b=1", ["mpirun", "python"], SFT),
        (f"accelerate launch --config_file c.yaml --num_processes 8 -m {SFT} a.b=1", ["accelerate"], SFT),
        ("accelerate launch --multi_gpu verl/trainer/sft_trainer.py a.b=1", ["accelerate"], SFT),
        (f"deepspeed --num_gpus 8 --module {SFT} a.b=1", ["deepspeed"], SFT),
        (f"env A=1 B=2 python -m {PPO} a.b=1", ["env", "python"], PPO),
        (f"env -i -u X --unset=Y -C /tmp python -m {PPO} a.b=1", ["env", "python"], PPO),
        (f"env -S 'A=1 python -u' -m {PPO} a.b=1", ["env", "python"], PPO),
        (f"nohup python -m {PPO} a.b=1", ["nohup", "python"], PPO),
        (f"time timeout -k 5 10h nice -n 5 python -m {PPO} a.b=1", ["time", "timeout", "nice", "python"], PPO),
        (f"stdbuf -oL -eL python -m {PPO} a.b=1", ["stdbuf", "python"], PPO),
        (f"numactl --cpunodebind=0 --membind 0 python -m {PPO} a.b=1", ["numactl", "python"], PPO),
        (f"taskset -c 0-15 setsid python -m {PPO} a.b=1", ["taskset", "setsid", "python"], PPO),
        (f"sudo -E -u me python -m {PPO} a.b=1", ["sudo", "python"], PPO),
        (f"conda run -n verl --no-capture-output python -m {PPO} a.b=1", ["conda", "python"], PPO),
        (f"micromamba run -p /envs/x python -m {PPO} a.b=1", ["micromamba", "python"], PPO),
        (f"poetry run python -m {PPO} a.b=1", ["poetry", "python"], PPO),
        (f"pixi run -e gpu python -m {PPO} a.b=1", ["pixi", "python"], PPO),
        (f"docker run --rm --gpus all -e A=1 -v /d:/d verl:latest python -m {PPO} a.b=1", ["docker", "python"], PPO),
        (f"docker exec -it box bash -lc 'cd /verl && python -m {PPO} a.b=1'", ["docker", "bash", "python"], PPO),
        (f"singularity exec --nv verl.sif python -m {PPO} a.b=1", ["singularity", "python"], PPO),
        (f"ssh node0 'cd verl; python -m {PPO} a.b=1'", ["ssh", "python"], PPO),
        (f"bash -c 'python -m {PPO} a.b=1'", ["bash", "python"], PPO),
        (f"bash -xec 'python -m {PPO} a.b=1'", ["bash", "python"], PPO),
        (f"bash -euo pipefail -c 'python -m {PPO} a.b=1'", ["bash", "python"], PPO),
        (f"sh -lc 'set -x; ray start --head; python -m {PPO} a.b=1 2>&1 | tee log.txt'", ["sh", "python"], PPO),
        (f"rlaunch --cpu 8 -- python -m {PPO} a.b=1", ["rlaunch", "python"], PPO),
        (f"ray job submit -- bash -c 'torchrun -m {SFT} a.b=1'", [*SUBMIT, "bash", "torchrun"], SFT),
    ],
)  # fmt: skip
def test_launch(command: str, launchers: list[str], entry: str) -> None:
    launch = parse(command)
    assert (launch.launchers, launch.entry) == (launchers, entry)
    expected = TWO.split() if TWO in command else ["a.b=1"]
    assert [argument.text for argument in launch.arguments][-len(expected) :] == expected
    assert all(argument.text in expected or argument.text.startswith("--config") for argument in launch.arguments)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (f"python {PPO} {TWO}", "-m"),
        (f"torchrun --nnodes=1 {SFT} {TWO}", "-m"),
        ("python train.py --lr 1", "'train.py'"),
        ("python train.py", "'train.py'"),
        ("python train.py trainer.max_epochs=5 data.batch_size=64 trainer.gpus=2", "'train.py'"),
        ("python my_main.py trainer.logger=[console]", "fewer than two"),
        ("python -m openrlhf.cli.train_ppo_ray --use_wandb x", "OpenRLHF"),
        ("ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --pretrain x", "OpenRLHF"),
        ("python3 -m verl.trainer.main config=examples/config.yaml trainer.logger=[console]", "EasyR1"),
        (f"uv run -m skyrl_train.entrypoints.main_base {TWO}", "SkyRL"),
        ("llamafactory-cli train x.yaml", "LLaMA-Factory"),
        ("python -m verl.model_merger merge --backend fsdp", "trains nothing"),
        ("python -m recipe.r1.data_process --local_dir x", "'--local_dir'"),
        ("python3 -c 'import torch'", "python -c"),
        ("python3", "without a program"),
        ("python3 -", "without a program"),
        ("torchrun --nproc_per_node 8", "torchrun without a program"),
        ("bash run.sh trainer.logger=[console]", "--script"),
        ("bash", "--script"),
        ("nohup bash run.sh", "--script"),
        ("ray start --head", "ray start"),
        ("ray job submit --no-wait", "no command"),
        ("ray job list", "ray job list"),
        ("WANDB_MODE=offline", "starts nothing"),
        (f"env B=2 -u python -m {PPO}", "'-u'"),
        ("echo hello", "'echo'"),
        ("srun hostname", "'srun'"),
        (f"bash -c 'for i in 1 2; do python -m {PPO}; done'", "'for'"),
        (f"bash -c 'python -m {PPO} a.b=$(date)'", "command substitution"),
        (f"bash -c 'python -m {PPO} a.b=`date`'", "command substitution"),
        (f"bash -c '(cd x; python -m {PPO})'", "subshell"),
        (f"bash -c 'python -m {PPO} <<EOF'", "here-document"),
        (f"bash -c 'python -m {PPO} a.{{b,c}}=1'", "brace expansion"),
        ("bash -c 'cd x && bash run.sh'", "--script"),
        ("bash -c ''", "empty"),
    ],
)
def test_not_a_launch_says_what_was_found(command: str, says: str) -> None:
    with pytest.raises(NotAVerlLaunch) as caught:
        parse(command)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_empty_command() -> None:
    with pytest.raises(NotAVerlLaunch, match="empty"):
        parse_command([])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"A=1 B='x y' python -m {PPO}", {"A": "1", "B": "x y"}),
        (f"A=1 env B=2 python -m {PPO}", {"A": "1", "B": "2"}),
        (f"A=1 env -u A python -m {PPO}", {}),
        (f"env -i B=2 python -m {PPO}", {"B": "2"}),
        (
            f"A=1 docker run -e B=2 --env C=3 --env=D=4 -eE=5 -e F image python -m {PPO}",
            {"B": "2", "C": "3", "D": "4", "E": "5"},
        ),
        (f"A=1 sudo B=2 python -m {PPO}", {"B": "2"}),
        (f"A=1 sudo -E B=2 python -m {PPO}", {"A": "1", "B": "2"}),
        (f"A=1 srun --export=ALL,B=2 python -m {PPO}", {"A": "1", "B": "2"}),
        (f"A=1 srun --export NONE python -m {PPO}", {}),
        (f"mpirun -x B=2 -x C python -m {PPO}", {"B": "2"}),
        (f"A=1 apptainer exec --env B=2,C=3 x.sif python -m {PPO}", {"A": "1", "B": "2", "C": "3"}),
        (f"A=1 apptainer exec --cleanenv --env B=2 x.sif python -m {PPO}", {"B": "2"}),
        (f"bash -c 'export A=1 B=2; unset B; python -m {PPO}'", {"A": "1"}),
        (f"bash -c 'A=1 python -m {PPO}'", {"A": "1"}),
        (f"A=1 ray job submit -- env B=2 python -m {PPO}", {"A": "1"}),
    ],
)
def test_assignments(command: str, expected: dict[str, str]) -> None:
    assert assigned(parse(command)) == expected


def test_assignments_after_submission_are_the_entrypoints() -> None:
    launch = parse(f"A=1 ray job submit -- env B=2 python -m {PPO}")
    assert [variable.name for variable in launch.entrypoint_assignments] == ["B"]
    assert launch.submits_to_cluster


def test_plain_assignment_in_a_line_is_not_exported() -> None:
    launch = parse(f"bash -c 'A=1; python -m {PPO}'")
    assert launch.assignments[0].unknown


@pytest.mark.parametrize(
    ("command", "drops", "adds", "python", "elsewhere"),
    [
        (f"python -m {PPO}", False, False, False, False),
        (f"nohup nice python -m {PPO}", False, False, False, False),
        (f"env -i A=1 python -m {PPO}", True, False, False, False),
        (f"docker run image python -m {PPO}", True, True, True, True),
        (f"ssh host python -m {PPO}", True, True, True, True),
        (f"sudo python -m {PPO}", True, True, False, False),
        (f"sudo -E python -m {PPO}", False, False, False, False),
        (f"srun python -m {PPO}", False, False, False, True),
        (f"srun --export=NONE python -m {PPO}", True, True, False, True),
        (f"srun --container-image=x python -m {PPO}", False, True, True, True),
        (f"apptainer exec x.sif python -m {PPO}", False, True, True, False),
        (f"conda run -n x python -m {PPO}", False, True, True, False),
        (f"poetry run python -m {PPO}", False, False, True, False),
        (f"uv run python -m {PPO}", False, False, True, False),
        (f"uv run --env-file .env python -m {PPO}", False, True, True, False),
        (f"unheard-of python -m {PPO}", True, True, True, True),
        (f"bash -c 'source .env && python -m {PPO}'", False, True, True, False),
        (f"bash -c 'pip install wandb && python -m {PPO}'", False, False, True, False),
    ],
)
def test_what_launchers_change(command: str, drops: bool, adds: bool, python: bool, elsewhere: bool) -> None:
    launch = parse(command)
    found = (launch.drops_environment, launch.adds_environment, launch.unknown_python, launch.other_machine)
    assert tuple(map(bool, found)) == (drops, adds, python, elsewhere)


def test_line_takes_the_last_launch_and_what_comes_before_it() -> None:
    line = (
        "set -x\nexport WANDB_MODE=offline # comment ' here\n"
        f"cd /src && python -m {PPO} trainer.project_name=first\n"
        f"export WANDB_MODE=online; cd verl\npython -m {PPO} \\\n  trainer.project_name='a b' trainer.x=\"[a,b]\""
        " > log 2>&1 &\nwait"
    )
    launch = parse_command([Argument("bash"), Argument("-c"), Argument(line)])
    assert [argument.text for argument in launch.arguments] == ["trainer.project_name=a b", "trainer.x=[a,b]"]
    assert launch.directory == "/src/verl"
    assert assigned(launch)["WANDB_MODE"] == "online"


def test_line_given_as_one_argument() -> None:
    launch = parse_command([Argument(f"A=1 python -m {PPO} trainer.logger='[\"console\"]' 2>&1 | tee log")])
    assert [argument.text for argument in launch.arguments] == ['trainer.logger=["console"]']
    assert assigned(launch) == {"A": "1"}


@pytest.mark.parametrize(
    "line",
    [
        r"""a.b='x y' c.d="x y" e.f=x\ y""",
        r"""a.b="x\"y\$z\\w\q" c.d='x\"y' e.f=\$HOME""",
        """a.b=["console","wandb"] c.d='["console","wandb"]' e.f=['console','wandb']""",
        "a.b=x'y'\"z\" '' \"\"",
        "a.b=1 > /dev/stderr 2>&1 c.d=2",
        "a.b=1 2>/dev/null >>/dev/null c.d=2 &>/dev/null e.f=3 # g.h=4 'not closed",
        "a.b=#1 c.d=x#y # e.f=2",
        "a.b=1 \\\n  c.d=2",
        "a.b=1; true && true || true | cat & wait",
        "~a.b ++c.d=1 e.f=~x g.h={a:1} i.j=$ k.l=a$",
        "a.b=中文 c.d='全 角' e.f=\"é\"",
        "a.b=1 \t\n",
    ],
)
def test_lines_split_as_bash_does(line: str) -> None:
    script = 'python() { printf "%s\\0" "$@" >&3; }; python ' + line
    done = subprocess.run(["bash", "-c", f"exec 3>&1 >/dev/null 2>&1; {script}"], capture_output=True, check=True)
    launch = parse_command([Argument("bash"), Argument("-c"), Argument(f"python -m {PPO} {line}")])
    assert [argument.text for argument in launch.arguments] == done.stdout.decode().split("\0")[:-1]


def test_variables_of_the_inner_shell_are_unknown() -> None:
    inner = f"python -m {PPO} a.b=$NAME c.d='$NAME' e.f=\"${{X:-y}}\""
    launch = parse_command([Argument("bash"), Argument("-c"), Argument(inner, Location("run.sh", 3))])
    first, second, third = launch.arguments
    assert first.text == f"a.b={UNKNOWN}"
    assert "$NAME" in first.unknown
    assert first.location == Location("run.sh", 3)
    assert (second.text, second.unknown) == ("c.d=$NAME", "")
    assert third.unknown


def test_words_keep_place_and_doubt() -> None:
    place = Location("run.sh", 7, 3)
    command = [Argument(f"WANDB_MODE={UNKNOWN}", place, "$(f)"), Argument("python"), Argument("-m"), Argument(PPO)]
    launch = parse_command([*command, Argument(f"a={UNKNOWN}", place, "$X")])
    assert launch.assignments[0].unknown == "$(f)"
    assert launch.assignments[0].source.location == place
    assert launch.arguments == [Argument(f"a={UNKNOWN}", place, "$X")]


@pytest.mark.parametrize("command", [f"python -m {UNKNOWN} {TWO}", f"python {UNKNOWN} {TWO}", f"python x/{UNKNOWN}.py {TWO}"])
def test_unknown_entry(command: str) -> None:
    with pytest.raises(NotAVerlLaunch, match=r"not known: \$MODULE"):
        parse_command([Argument(word, None, "$MODULE" if UNKNOWN in word else "") for word in command.split()])


def test_unknown_folder_and_unknown_launcher() -> None:
    launch = parse_command(words(f"{UNKNOWN} python {UNKNOWN}/verl/trainer/main_ppo.py a.b=1"))
    assert (launch.entry, launch.launchers) == (PPO, ["?", "python"])
    assert UNKNOWN not in launch.unknown_python


def test_unknown_interpreter_with_a_module_of_verl() -> None:
    launch = parse_command([Argument(UNKNOWN, None, "$PYTHON is not set"), *words(f"-m {PPO} a.b=1")])
    assert launch.entry == PPO


def test_ray_job_submit_reads_its_runtime_env(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("working_dir: ./\nenv_vars:\n  WANDB_MODE: offline\n")
    command = f"ray job submit --address http://h:8265 --runtime-env env.yaml --working-dir /w -- python -m {PPO}"
    launch = parse_command(words(command), str(tmp_path))
    variable = launch.runtime_env["WANDB_MODE"]
    assert (variable.value, variable.source.location) == ("offline", Location("env.yaml", 3))
    assert (launch.address, launch.working_dir) == ("http://h:8265", "/w")


def test_ray_job_submit_reads_json() -> None:
    text = json.dumps({"env_vars": {"WANDB_API_KEY": "k" * 40}, "working_dir": "s3://b/x.zip"})
    launch = parse_command([*words("ray job submit"), Argument(f"--runtime-env-json={text}"), *words(f"-- python -m {PPO}")])
    assert isinstance(launch.runtime_env["WANDB_API_KEY"].value, Secret)
    assert launch.working_dir == "s3://b/x.zip"
    assert "kkkk" not in repr(launch)


def test_missing_runtime_env_file_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"no/such\.yaml"):
        parse(f"ray job submit --runtime-env no/such.yaml -- python -m {PPO}")


def test_runtime_env_whose_path_is_not_known() -> None:
    command = [*words("ray job submit"), Argument(f"--runtime-env={UNKNOWN}", None, "$F"), *words(f"-- python -m {PPO}")]
    assert "$F" in parse_command(command).adds_environment


def test_secrets_do_not_remain() -> None:
    key = "a1b2c3d4" * 5
    launch = parse(f"WANDB_API_KEY={key} env HF_TOKEN=hf_{key} python -m {PPO}")
    assert key not in repr(launch)
    assert isinstance(launch.assignments[0].value, Secret)
    with pytest.raises(NotAVerlLaunch) as caught:
        parse(f"python -m openrlhf.cli.train --use_wandb {key}")
    assert key not in str(caught.value)
    with pytest.raises(NotAVerlLaunch) as caught:
        parse(f"ray start --api-key={key}")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["x" * 1_000_000],
        ["x " * 200_000],
        ["python", "-m", "y" * 1_000_000],
        ["\udcff\udcfe", "-m", "\udc80"],
        ["python", "-m", "\udcff.main"],
        ["bash", "-c", "python -m verl.trainer.main_ppo 'unbalanced"],
        ["bash", "-c", 'python "\\'],
        ["bash", "-c", "${" * 10_000],
        ["bash", "-c", "; " * 50_000 + "x"],
        ["", "", ""],
        [" "],
        ["--"],
        ["env", "-S"],
        ["$"],
        ["env"],
        ["ray"],
        ["uv", "run", "-m"],
        ["python"] * 10_000,
        ["env"] * 10_000,
        ["uv", "run"] * 5_000,
        ["nohup"] * 10_000,
        ["bash", "-c"] * 5_000,
        ["-m"] * 10_000,
        ["A=1"] * 10_000,
        [f"x{UNKNOWN}"] * 3,
    ],
    ids=lambda arguments: repr(arguments[:3])[:40],
)
def test_hostile_input_is_refused_quickly(arguments: list[str]) -> None:
    begun = time.process_time()
    with pytest.raises(NotAVerlLaunch) as caught:
        parse_command([Argument(argument) for argument in arguments])
    assert time.process_time() - begun < 2
    assert len(str(caught.value)) < 500
    str(caught.value).encode()


def test_ten_thousand_overrides() -> None:
    overrides = [Argument(f"a.b{number}={number}") for number in range(10_000)]
    begun = time.perf_counter()
    launch = parse_command([*words(f"srun nohup python -m {PPO}"), *overrides])
    assert launch.arguments == overrides
    assert time.perf_counter() - begun < 0.5
