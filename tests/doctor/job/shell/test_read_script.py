# ruff: noqa: E501 - rows of shell text
"""What is read in launch scripts: words, variables, places, and the notes on what deserves a look."""

import os
import random
import subprocess
import sys
import time

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job.model import UNKNOWN, Source
from verl_doctor.job.shell import NOTE_KINDS, read_script
from verl_doctor.job.variables import make_variable
from verl_doctor.secrets import Secret

ENTRY = "python3 -m verl.trainer.main_ppo"
KEY = "local-" + "0123456789abcdef" * 2 + "01234567"


@pytest.fixture
def read(tmp_path):
    def run(text, *arguments, name="run.sh", **variables):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        environment = {key: make_variable(key, value, Source("shell", "environment")) for key, value in variables.items()}
        return read_script(str(path), list(arguments), environment, str(tmp_path))

    return run


def overrides(script, number=0):
    return [word.text.replace(UNKNOWN, "?") for word in script.launches[number].arguments[3:]]


def kinds(script):
    return [note.kind for note in script.notes]


VALUES = [
    ("plain", "N=3\n{} a.b=$N", ["a.b=3"]),
    ("default", "{} a.b=${{N:-7}} c.d=${{M-x}}", ["a.b=7", "c.d=x"]),
    ("default inside a default", '{} "a.b=${{N:-${{M:-deep}}}}"', ["a.b=deep"]),
    ("quoted list", "{} trainer.logger='[\"console\",\"wandb\"]'", ['trainer.logger=["console","wandb"]']),
    ("list with variables", "B=wandb\n{} trainer.logger=\"['console','$B']\"", ["trainer.logger=['console','wandb']"]),
    ("array", 'A=(a.b=1 # why\n  # alone\n  "c.d=x y")\nA+=(e=3)\n{} "${{A[@]}}"', ["a.b=1", "c.d=x y", "e=3"]),
    ("arrays one after another", 'A=(a=1)\nB=("${{A[@]}}" b=2)\n{} "${{B[@]}}"', ["a=1", "b=2"]),
    ("arithmetic", "L=$((1024 * 4))\n{} a.b=$((L + 1)) c=$(((L + 2) * 2))", ["a.b=4097", "c=8196"]),
    ("function", 'go() {{ local n=$1; shift; {} a.b=$n "$@"; }}\ngo 4 x.y=1 "p q=2"', ["a.b=4", "x.y=1", "p q=2"]),
    ("if", 'T=sft\nif [ "$T" = ppo ]; then N=1; elif [[ $T == s* ]]; then N=2; else N=3; fi\n{} a.b=$N', ["a.b=2"]),
    ("case", "T=big\ncase $T in small|tiny) N=1 ;; b*) N=2 ;; *) N=3 ;; esac\n{} a.b=$N", ["a.b=2"]),
    ("command substitutions that print", "N=$(basename /x/qwen.sh .sh)-$(echo a)\n{} a.b=$N", ["a.b=qwen-a"]),
    ("continued lines", "{} \\\n  a.b=1 \\\n  c.d=2", ["a.b=1", "c.d=2"]),
    ("arguments", 'N=$1\nshift\n{} a.b=$N "$@"', ["a.b=first", "second=2"]),
    ("redirections", "{} a.b=1 2>&1 c.d=2 > log", ["a.b=1", "c.d=2"]),
    ("set without value", "N=\n{} a.b=${{N:-x}} c.d=${{N-y}}", ["a.b=x", "c.d="]),
    ("braces", "{} a.b={{1,2}} 'c={{d: 1}}'", ["a.b=1", "a.b=2", "c={d: 1}"]),
    ("replaced", "M=Qwen/Qwen3-8B\n{} n=${{M##*/}} m=${{M//\\//-}} l=${{M,,}}", ["n=Qwen3-8B", "m=Qwen-Qwen3-8B", "l=qwen/qwen3-8b"]),
    ("each element with a prefix", 'A=(a=1 b=2)\nX=q\n{} "${{A[@]/#/p.}}" x=${{X/#/p}} y=${{X/%/s}}', ["p.a=1", "p.b=2", "x=pq", "y=qs"]),
    ("lines that are read", 'mapfile -t A < words\n{} "${{A[@]}}"', ["?"]),
    ("here-document before", "cat > c.yaml <<EOF\na: 'b\n{} no=1\nEOF\n{} a.b=1", ["a.b=1"]),
    ("backslash at the end of the file", "{} a.b=1 \\", ["a.b=1"]),
    ("eval of known text", "C='a.b=1'\neval \"{} $C\"", ["a.b=1"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_values_are_those_of_bash(read, text, wanted):
    script = read(text.format(*[ENTRY] * text.count("{}")), "first", "second=2")
    assert overrides(script) == wanted
    assert script.launches[0].condition == ""


UNKNOWNS = [
    ("program", "{} trainer.experiment_name=run_$(date +%s)_x", "trainer.experiment_name=run_?_x", "date"),
    ("scheduler", "{} trainer.nnodes=$SLURM_NNODES", "trainer.nnodes=?", "scheduler"),
    ("scheduler with default", "{} trainer.nnodes=${{WORLD_SIZE:-1}}", "trainer.nnodes=?", "scheduler"),
    ("random", "S=$RANDOM\n{} a.seed=$S", "a.seed=?", "RANDOM"),
    ("arithmetic", "N=$(nproc)\n{} a.b=$((N * 2))", "a.b=?", "nproc"),
    ("branches", "if command -v nvidia-smi; then N=8; else N=16; fi\n{} a.b=$N", "a.b=?", "branches of line 1"),
    ("one branch", "N=1\nuname | grep -q Linux && N=2\n{} a.b=$N", "a.b=?", "branches of line 2"),
    ("loop", "N=0\nfor f in $(ls); do N=$((N + 1)); done\n{} a.b=$N", "a.b=?", "loop"),
    ("read", "read -r N\n{} a.b=$N", "a.b=?", "read"),
]


@pytest.mark.parametrize(("text", "word", "reason"), [row[1:] for row in UNKNOWNS], ids=[row[0] for row in UNKNOWNS])
def test_what_cannot_be_known_stays_unknown(read, text, word, reason):
    (launch,) = read(text.format(ENTRY)).launches
    assert launch.arguments[-1].text.replace(UNKNOWN, "?") == word
    assert reason in launch.arguments[-1].unknown


def test_only_the_settings_that_differ_between_branches_are_unknown(read):
    script = read(f'A=(a.b=1)\nif check; then A+=(c.d=2); else A+=(c.d=3 e.f=4); fi\n{ENTRY} "${{A[@]}}" g.h=5')
    assert overrides(script) == ["a.b=1", "c.d=?", "e.f=?", "g.h=5"]


def test_a_launcher_that_differs_between_branches_gives_a_launch_each(read):
    script = read('L=(python3)\nif check; then L=(uv run python3); fi\n"${L[@]}" -m verl.trainer.main_ppo a.b=1')
    assert [launch.arguments[0].text for launch in script.launches] == ["uv", "python3"]
    assert [launch.condition for launch in script.launches] == ["'check'", "not 'check'"]


def test_a_branch_that_ends_the_script_leaves_no_doubt(read):
    script = read(f'if ! command -v ray; then echo no; exit 1; fi\n[ -d "$(mktemp)" ] || exit 1\n{ENTRY} a.b=1')
    assert script.launches[0].condition == ""


def test_a_launch_in_an_undecided_branch_carries_its_condition(read):
    script = read(f"if nvidia-smi; then\n  {ENTRY} a.b=1\nelse\n  sleep infinity\nfi")
    assert script.launches[0].condition == "'nvidia-smi'"


def test_a_launch_behind_an_undecided_break_is_in_doubt(read):
    script = read(f"for i in 1 2; do\n  {ENTRY} a.b=$i\n  check && break\ndone")
    assert [bool(launch.condition) for launch in script.launches] == [False, True]


def test_places_are_lines_and_columns(read):
    script = read(f"\n{ENTRY} \\\n    a.b=1 \\\n  c.d=2")
    words = script.launches[0].arguments
    assert script.launches[0].line == 2
    assert [(word.location.line, word.location.column) for word in words[-2:]] == [(3, 5), (4, 3)]


def test_the_environment_at_the_launch(read):
    text = f"export WANDB_MODE=offline\nB=2\nexport C\nC=3\nunset D\nWANDB_DIR=/x {ENTRY}\nexport WANDB_MODE=online"
    launch = read(text, D="gone", E="kept").launches[0]
    assert {name: variable.value for name, variable in launch.environment.items()} == {
        "WANDB_MODE": "offline",
        "C": "3",
        "WANDB_DIR": "/x",
        "E": "kept",
    }
    assert launch.environment["WANDB_MODE"].source.kind == "script"
    assert launch.environment["WANDB_MODE"].source.location.line == 1
    assert launch.environment["E"].source.kind == "shell"


def test_a_credential_of_the_environment_passes_through(read):
    script = read(f'export COPY_TOKEN="$WANDB_API_KEY"\n{ENTRY}', WANDB_API_KEY=KEY)
    environment = script.launches[0].environment
    assert isinstance(environment["WANDB_API_KEY"].value, Secret)
    assert environment["COPY_TOKEN"].value == environment["WANDB_API_KEY"].value
    assert KEY not in repr(script)


def test_the_directory_follows_cd(read, tmp_path):
    (tmp_path / "sub").mkdir()
    script = read(f"{ENTRY}\ncd sub\n{ENTRY} a.b=$(pwd)\n(cd /; {ENTRY})\n{ENTRY}")
    assert [launch.directory for launch in script.launches] == [
        str(tmp_path),
        str(tmp_path / "sub"),
        "/",
        str(tmp_path / "sub"),
    ]
    assert overrides(script, 1) == [f"a.b={tmp_path}/sub"]


LAUNCHES = [
    ("torchrun", "torchrun --nnodes=1 -m verl.trainer.fsdp_sft_trainer a.b=1"),
    ("path", "python3 /opt/verl/verl/trainer/main_ppo.py a.b=1"),
    ("own program", "python train.py trainer.logger=console data.train_files=x"),
    ("recipe", "python3 -m recipe.dapo.main_dapo a.b=1"),
    ("ray", "ray job submit --runtime-env=r.yaml -- python3 -m verl.trainer.main_ppo a.b=1"),
    ("srun", "srun --nodes=1 apptainer exec i.sif python3 -m verl.trainer.main_ppo a.b=1"),
    ("uv", "uv run --frozen python3 -m verl.trainer.main_ppo a.b=1"),
    ("nohup in the background", "nohup python3 -m verl.trainer.main_ppo a.b=1 > log 2>&1 &"),
    ("text for a shell", 'docker run image bash -c "python3 -m verl.trainer.main_ppo a.b=1"'),
    ("piped", "python3 -m verl.trainer.main_ppo a.b=1 2>&1 | tee log"),
    ("in a subshell", "( python3 -m verl.trainer.main_ppo a.b=1 )"),
    ("exec", "exec python3 -m verl.trainer.main_ppo a.b=1"),
    ("accelerate", "accelerate launch -m verl.trainer.sft_trainer a.b=1"),
]


@pytest.mark.parametrize("text", [row[1] for row in LAUNCHES], ids=[row[0] for row in LAUNCHES])
def test_launches_are_found(read, text):
    (launch,) = read(text).launches
    assert launch.condition == ""


OTHERS = [
    "python3 -m vllm.entrypoints.api_server",
    "echo python3 -m verl.trainer.main_ppo",
    "tee verl.trainer.main_ppo",
    "pip install a>=0.0.5",
    f"# {ENTRY}",
    f"cat <<EOF\n{ENTRY}\nEOF",
    f"if false; then {ENTRY}; fi",
    f"exit 0\n{ENTRY}",
    f"f() {{ {ENTRY}; }}",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_commands_are_no_launches(read, text):
    assert read(text).launches == []


NOTES = [
    ("override-after-pipe", f"{ENTRY} a.b=1 2>&1 | tee log \\\n  trainer.resume_mode=disable", 2, "trainer.resume_mode=disable"),
    ("continuation-missing", f"{ENTRY} a.b=1\n    trainer.nnodes=2", 2, "trainer.nnodes=2"),
    ("continuation-ended-by-empty-line", f"{ENTRY} a.b=1 \\\n\n    trainer.nnodes=2", 3, "trainer.nnodes=2"),
    ("continuation-ended-by-comment", f"{ENTRY} a.b=1 \\\n  # trainer.x=1 \\\n  trainer.nnodes=2", 2, "trainer.nnodes=2"),
    ("continuation-ended-by-blank", f"{ENTRY} a.b=1 \\ \n  trainer.nnodes=2", 1, "trainer.nnodes=2"),
    ("continuation-ended-by-blank", f"{ENTRY} a.b=1 \\\r\n  trainer.nnodes=2\r\n", 1, "trainer.nnodes=2\r"),
    ("unquoted-list-glob", f"#!/usr/bin/env zsh\n{ENTRY} trainer.logger=[console]", 2, "trainer.logger=[console]"),
    ("unquoted-list-glob", f"shopt -s nullglob\n{ENTRY} trainer.logger=['console','wandb']", 2, "trainer.logger=['console','wandb']"),
    ("unquoted-list-glob", f"shopt -s failglob\n{ENTRY} trainer.logger=[console]", 2, "trainer.logger=[console]"),
    ("override-split", f"{ENTRY} trainer.logger=['console', 'wandb']", 1, "trainer.logger=[console,"),
    ("typographic-character", f"{ENTRY} trainer.logger=“console”", 1, "trainer.logger=“console”"),
    ("typographic-character", f"{ENTRY} trainer.logger='[“console”，“wandb”]'", 1, "trainer.logger='[“console”，“wandb”]'"),
    ("typographic-character", f"{ENTRY} –config-name=x", 1, "–config-name=x"),
    ("empty-from-unset", f"{ENTRY} trainer.experiment_name=$EXP", 1, "trainer.experiment_name="),
    ("empty-from-unset", f"NAME=$EXP\nA=(trainer.experiment_name=$NAME)\n{ENTRY} ${{A[@]}}", 2, "trainer.experiment_name="),
    ("unset-under-u", f"set -eu\nD=$DATA_HOME\n{ENTRY} a.b=$D", 2, "DATA_HOME"),
    ("unset-under-u", f": ${{MODEL:?give a model}}\n{ENTRY} a.b=$MODEL", 1, "MODEL"),
    ("plaintext-credential", f"export WANDB_API_KEY={KEY}\n{ENTRY}", 1, "WANDB_API_KEY"),
    ("plaintext-credential", f"WANDB_API_KEY='{KEY}' {ENTRY}", 1, "WANDB_API_KEY"),
    ("plaintext-credential", f"export https_proxy=http://me:s3cretpw@proxy:80\n{ENTRY}", 1, "https_proxy"),
    ("export-after-launch", f"{ENTRY}\nexport WANDB_MODE=offline", 2, "WANDB_MODE"),
    ("export-after-launch", f"{ENTRY} &\nexport https_proxy=http://p:1\nwait", 2, "https_proxy"),
    ("undecidable", f"eval \"$(make_settings)\"\n{ENTRY}", 1, "eval"),
    ("undecidable", f"source /no/such/settings.sh\n{ENTRY}", 1, "'source /no/such/settings.sh'"),
    ("undecidable", f"if then\n{ENTRY}", 1, "a syntax that is not recognised"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "line", "word"), NOTES)
def test_notes(read, kind, text, line, word):
    script = read(text)
    (note,) = [note for note in script.notes if note.kind == kind]
    assert (note.location.line, note.values["word"]) == (line, word)
    assert "line" in note.values
    assert KEY not in repr(script)
    assert "s3cretpw" not in repr(script)


QUIET = [
    f"{ENTRY} a.b=1 \\\n  # trailing comment, nothing is lost\n\necho done",
    f"{ENTRY} trainer.logger=['console','wandb'] 2>&1 | tee log",
    f"{ENTRY} 'trainer.logger=[console, wandb]' trainer.experiment_name=\"中文，名字\" a.b='{{c: 1, d: 2}}'",
    f"#!/bin/zsh\n{ENTRY} 'trainer.logger=[console]'",
    f"#!/bin/zsh\nsetopt no_nomatch\n{ENTRY} trainer.logger=[console]",
    f"{ENTRY} trainer.experiment_name=${{EXP:-}} trainer.default_hdfs_dir=",
    f"set -u\n{ENTRY} a.b=${{X:-}} c=${{Y+1}}",
    f"set -u\nif check; then A=$UNSET; fi\n{ENTRY}",
    f"export WANDB_API_KEY=your_wandb_key HF_TOKEN=$MY_TOKEN\n{ENTRY}",
    f"COMMIT={'0123456789' * 4}\n{ENTRY} a.revision={'0123456789' * 4}",
    f"{ENTRY} a=1\nexport WANDB_MODE=offline\n{ENTRY} a=2",
    f"{ENTRY} a=1\nexport WANDB_MODE=online\nwandb sync run",
    f'eval "$(conda shell.bash hook)"\n{ENTRY}',
    f"[ -f /no/such/file ] && source /no/such/file\n{ENTRY}",
    f"for i in; do :; done\nX=$(( (1 + 2) * 3 ))\n{ENTRY} a.b=$X >&2 <<< text",
]


@pytest.mark.parametrize("text", QUIET)
def test_what_is_right_gives_no_note(read, text):
    script = read(text)
    assert script.launches
    assert script.notes == []


def test_another_script_is_followed(read, tmp_path):
    (tmp_path / "inner.sh").write_text(f'#!/bin/bash\n\n{ENTRY} a.b=$1 c.d=$SHARED e.f="$NOT_EXPORTED"\n')
    script = read("export SHARED=s\nNOT_EXPORTED=n\nbash inner.sh 5\n./inner.sh 6\n")
    assert [overrides(script, number) for number in (0, 1)] == [["a.b=5", "c.d=s", "e.f="], ["a.b=6", "c.d=s", "e.f="]]
    assert script.launches[0].arguments[0].location.file == str(tmp_path / "inner.sh")
    assert script.launches[0].line == 3
    assert kinds(script).count("delegated") == 2


def test_a_sourced_file_sets_variables(read, tmp_path):
    (tmp_path / "settings.sh").write_text("N=4\nexport WANDB_PROJECT=p\nreturn 0\nN=5\n")
    script = read(f'source "$(dirname "$0")/settings.sh"\n. ./settings.sh\n{ENTRY} a.b=$N')
    assert overrides(script) == ["a.b=4"]
    assert script.launches[0].environment["WANDB_PROJECT"].source.location.file == str(tmp_path / "settings.sh")


def test_after_a_file_that_is_not_there_unset_variables_are_unknown(read):
    launch = read(f"source /no/such/file\nX=1\n{ENTRY} a=$X b=$Y").launches[0]
    assert [word.text.replace(UNKNOWN, "?") for word in launch.arguments[-2:]] == ["a=1", "b=?"]
    assert "/no/such/file" in launch.unseen


def test_files_are_looked_at_where_they_are(read, tmp_path):
    (tmp_path / "there").write_text("")
    script = read(f"if [ -f there ] && [ ! -d missing ]; then N=1; else N=2; fi\n{ENTRY} a.b=$N")
    assert overrides(script) == ["a.b=1"]


def test_a_directive_of_slurm_sets_the_directory(read):
    script = read(f"#!/bin/bash\n#SBATCH --chdir=/scratch/me\nsrun {ENTRY} trainer.nnodes=$SLURM_NNODES", name="job.slurm")
    assert script.launches[0].directory == "/scratch/me"


SKY = f"""\
name: grpo
envs:
  MODEL: Qwen/Qwen3-8B
  WANDB_MODE: offline
secrets:
  WANDB_API_KEY: null
run: |
  if [ "$SKYPILOT_NODE_RANK" == "0" ]; then
    {ENTRY} \\
      a.model=$MODEL
  fi
"""
KUBERNETES = f"""\
kind: RayJob
spec:
  entrypoint: >-
    {ENTRY}
    a.b=1
  template:
    containers:
      - env:
          - {{name: WANDB_DIR, value: /x}}
        command: ["/bin/bash", "-lc"]
        args:
          - |
            {ENTRY} c.d=$WANDB_DIR
      - command: [python3, -m, verl.trainer.main_ppo]
        args: ["trainer.logger=['console']"]
"""


def test_blocks_of_skypilot(read):
    launch = read(SKY, name="job.yaml", LOCAL="1").launches[0]
    assert [(word.text, word.location.line, word.location.column) for word in launch.arguments[-1:]] == [
        ("a.model=Qwen/Qwen3-8B", 10, 7)
    ]
    assert launch.environment["WANDB_MODE"].value == "offline"
    assert launch.environment["WANDB_API_KEY"].unknown
    assert "LOCAL" not in launch.environment
    assert launch.unseen
    assert "SKYPILOT_NODE_RANK" in launch.condition


def test_blocks_of_kubernetes_and_ray(read):
    script = read(KUBERNETES, name="job.yml")
    assert [overrides(script, number) for number in range(3)] == [["a.b=1"], ["c.d=/x"], ["trainer.logger=['console']"]]
    assert [launch.line for launch in script.launches] == [3, 13, 14]


def test_fenced_code_of_markdown(read):
    text = (
        f"Run\n\n```bash\n$ export WANDB_MODE=offline\n$ {ENTRY} \\\n    a.b=1 | tee x \\\n    c.d=2\nan error (here\n```\n"
        f"\n```python\n{ENTRY} no=1\n```\n"
    )
    script = read(text, name="README.md")
    assert overrides(script) == ["a.b=1"]
    assert script.launches[0].line == 5
    assert script.launches[0].environment["WANDB_MODE"].value == "offline"
    assert [(note.kind, note.location.line) for note in script.notes] == [("override-after-pipe", 7)]


BAD = [("job.yaml", b"a: [1"), ("run.sh", b"\x00\x01ELF"), ("big.sh", b"# x\n" * 2_600_000), ("job.yml", b"[" * 20_000)]


@pytest.mark.parametrize(("name", "content"), BAD, ids=[row[0] for row in BAD])
def test_what_is_no_script_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput):
        read_script(str(tmp_path / name), [], {}, str(tmp_path))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "missing.sh", tmp_path):
        with pytest.raises(BadInput):
            read_script(str(path), [], {}, str(tmp_path))


HARD = [
    ("quotes", "'" * 50_001),
    ("double quotes", '"$(' * 20_000),
    ("braces", "${a:-" * 20_000),
    ("parentheses", "(" * 20_000),
    ("substitutions", "`" * 9_999),
    ("nested blocks", "if true; then\n" * 3_000 + "fi\n" * 3_000),
    ("brace expansion", "echo " + "{a,b}" * 60),
    ("endless loop", "while true; do N=$((N + 1)); done"),
    ("loop in a loop", "for i in {1..300}; do\n" * 5 + ":\n" + "done\n" * 5),
    ("growing text", "A=xxxxxxxxxx\n" + "A=$A$A$A$A\n" * 40),
    ("growing array", "A=(x y)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 40),
    ("recursion", "f() { f; f; }\nf"),
    ("script that starts itself", "bash run.sh\nbash run.sh"),
    ("script that sources itself", ". ./run.sh\n. ./run.sh"),
    ("star pattern", f"A={'a' * 5000}\n[[ $A == *a*a*a*a*a*a*a*b ]]\necho ${{A//*a*a*a*b/}}"),
    ("arithmetic", "echo $((" + "(" * 3_000 + "1" + ")" * 3_000 + "))"),
    ("self-reference in arithmetic", "a=b\nb=a\necho $((a))"),
    ("operators", "a && " * 5_000 + "b"),
    ("heredocs", "cat <<A <<B <<C\n" * 3_000),
    ("open braces", "echo " + "{" * 500_000),
    ("eval that doubles", 'x=\'x="$x$x"; eval "$x"\'; eval "$x"'),
]


@pytest.mark.parametrize("text", [row[1] for row in HARD], ids=[row[0] for row in HARD])
def test_hard_input_ends_soon(read, text):
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 2


def test_mutated_scripts_never_crash(read):
    dice = random.Random(7)
    base = "\n".join([row[1].replace("{}", ENTRY).replace("{{", "{").replace("}}", "}") for row in VALUES] + QUIET)
    pieces = [
        "'",
        '"',
        "`",
        "$(",
        ")",
        "${",
        "}",
        "((",
        "))",
        "\\",
        "\n",
        "[[",
        "]]",
        "<<EOF\n",
        "|",
        "&",
        ";;",
        "do",
        "fi",
        "é",
        "\x01",
    ]
    start = time.process_time()
    for _ in range(150):
        text = list(base)
        for _ in range(dice.randrange(1, 12)):
            place = dice.randrange(len(text))
            text[place : place + dice.randrange(0, 40)] = dice.choice(pieces)
        read("".join(text[dice.randrange(len(text)) :]), name=dice.choice(["a.sh", "a.sh", "a.md", "a.zsh"]))
    assert time.process_time() - start < 20


PROOF = """\
import sys
def forbid(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.spawn"):
        raise SystemExit("started a process: " + event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise SystemExit(f"opened for writing: {arguments[0]}")
from verl_doctor.job.shell import read_script
sys.addaudithook(forbid)
script = read_script(sys.argv[1], [], {}, sys.argv[2])
print(len(script.launches))
"""


def test_nothing_is_executed_or_written(tmp_path):
    script = tmp_path / "run.sh"
    commands = [
        "touch made",
        "echo x > made",
        "X=$(touch made)",
        "`touch made`",
        "eval touch made",
        "mkdir made",
        "bash -c 'touch made'",
    ]
    script.write_text("\n".join([*commands, f"{ENTRY} a.b=$(touch made) > made"]))
    before = set(os.listdir(tmp_path))
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROOF, str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr
    assert set(os.listdir(tmp_path)) == before


def test_every_kind_of_note_is_known():
    assert {row[0] for row in NOTES} | {"delegated"} == set(NOTE_KINDS)
