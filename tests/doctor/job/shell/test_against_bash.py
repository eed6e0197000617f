# ruff: noqa: E501 - rows of shell text
"""Random scripts of the subset of bash that the reader follows: the words and variables must be those that bash passes."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from verl_doctor.job.model import UNKNOWN, Source
from verl_doctor.job.shell import read_script
from verl_doctor.job.variables import make_variable
from verl_doctor.secrets import Secret

NAMES = ("A", "B", "C", "LONG_name")
ARRAYS = ("LIST", "MORE")
TEXTS = (
    "x",
    "a.b=1",
    "trainer.logger=",
    "x y",
    "",
    "a/b/c.tar.gz",
    "7",
    "0",
    "-1",
    "k=v",
    "  lead",
    "p,q:r",
    "Hello",
    "*",
    "[x]",
    "a'b",
)
PATTERNS = ("*", "a*", "*b", "?", "[a-c]*", "x", "*.gz", "*/", "[!a]*", "", "'*'", "a*b", "*.*")
ENTRY = "python3 -m verl.trainer.main_ppo"


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@dataclass
class Writer:
    """Writes one script; `dice` decides."""

    dice: random.Random
    depth: int = 0
    loops: int = 0
    functions: list[str] = field(default_factory=list)
    certain: list[str] = field(default_factory=list)
    in_function: bool = False

    def pick(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def name(self) -> str:
        return self.dice.choice(NAMES)

    def number(self, depth: int = 0) -> str:
        dice = self.dice
        simple = [str(dice.randrange(0, 12)), dice.choice(("N", "M")), "0x1F", "010", "$N", "${M:-3}"]
        if depth > 2 or dice.random() < 0.4:
            return dice.choice(simple)
        left, right = self.number(depth + 1), self.number(depth + 1)
        operator = dice.choice(["+", "-", "*", "<", "<=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>", ">", ">="])
        form = dice.choice(
            ["{l} {o} {r}", "({l}{o} {r})", "{l} ? {r} : 4", "-{l}", "!{l}", "({l} {o} {r}) / 3", "{l} % 5", "{l} ** 2"]
        )
        return form.format(l=left, o=operator, r=right)

    def parameter(self) -> str:
        """`$name` or `${...}`, not quoted."""
        dice, name = self.dice, self.dice.choice([*NAMES, "1", "2", "UNSET", "N"])
        operator = dice.choice(
            [":-", "-", ":+", "+", "#", "##", "%", "%%", "/", "//", "^^", ",,", "^", ",", ":", "", "", "", "len", "/#", "/%"]
        )
        if operator == "":
            return dice.choice([f"${name}", f"${{{name}}}"])
        if operator == "len":
            return f"${{#{name}}}"
        if operator in (":-", "-", ":+", "+"):
            return f"${{{name}{operator}{self.operand()}}}"
        if operator in ("#", "##", "%", "%%"):
            return f"${{{name}{operator}{dice.choice(PATTERNS)}}}"
        if operator in ("/", "//", "/#", "/%"):
            return f"${{{name}{operator}{self.pick('a', 'x', '[a-c]', '?', 'a*', '.', '=')}/{self.pick('Z', '', 'y z', '_')}}}"
        if operator == ":":
            return f"${{{name}:{self.pick('1', '0', ' -2', '2')}{self.pick('', ':1', ':2', ':0')}}}"
        return f"${{{name}{operator}}}"

    def operand(self) -> str:
        return self.pick("d", "two words", "'q u'", "$B", "\\$x", "a.b=[1]", "~x", "${C:-deep}", "$(echo in)", "")

    def arrays(self) -> str:
        name = self.dice.choice(ARRAYS)
        return self.pick(
            f'"${{{name}[@]}}"', f"${{{name}[@]}}", f'"${{{name}[*]}}"', f"${{#{name}[@]}}", f'"${{{name}[0]}}"', f'"${{{name}[1]:-none}}"',
            f'"${{{name}[@]:1}}"', f'"${{{name}[@]#a}}"', f'"${{{name}[2]-}}"', '"$@"', "$@", '"$*"', "$#", '"${@:2}"', f"${{!{name}[@]}}",
            f'"pre${{{name}[@]}}post"', f'"${{{name}[@]/x/y}}"', f'"${{{name}[@]:0:1}}"', f'"${{{name}[@]:-e f}}"', '"${@:-none given}"',
        )  # fmt: skip

    def piece(self, *, split: bool) -> str:
        dice = self.dice
        roll = dice.random()
        if roll < 0.3:
            return self.pick(
                "a",
                "b.c=",
                "x1",
                "_",
                "[1,2]",
                "a=b",
                "%",
                "key=",
                "+k=",
                "\\ ",
                "\\$",
                "\\\\",
                "@",
                ":",
                ",",
                "\\\n",
                "{a",
                "}",
            )
        if roll < 0.42:
            return quote(dice.choice(TEXTS))
        if roll < 0.58:
            return '"' + "".join(self.inner() for _ in range(dice.randrange(0, 3))) + '"'
        if roll < 0.78:
            parameter = self.parameter()
            return parameter if split or dice.random() < 0.5 else f'"{parameter}"'
        if roll < 0.84:
            return f"$(({self.number()}))"
        if roll < 0.89:
            return self.pick("$(echo one two)", '"$(printf \'%s-\' a "$A")"', "`echo back`", "$(basename a/b.py .py)", '"$(dirname x/y/z)"',
                             "$(seq 1 3)", '"$(echo "$A" "$B")"', f"$({self.certain[0]} z 2>/dev/null)" if self.certain and not self.in_function else "$(echo f)")  # fmt: skip
        if roll < 0.93:
            return self.pick("{a,b}", "{1..3}", "{x,y}z", "{a,b{c,d}}", "$'t\\tn'", '$"loc"', "{$A,q}", '{"a b",c}')
        return self.arrays()

    def inner(self) -> str:
        return self.pick(
            "t",
            " ",
            "$A",
            "${B:-d e}",
            "'",
            '\\"',
            "\\$A",
            "$((1 + 2))",
            "$(echo i)",
            "[1]",
            "${C%x}",
            "$1",
            "~",
            "*",
            '${LONG_name:+alt "q"}',
        )

    def word(self, *, split: bool = True) -> str:
        text = "".join(self.piece(split=split) for _ in range(self.dice.choice([1, 1, 1, 2, 2, 3])))
        return text if text.replace("\\\n", "") else "''"

    def words(self, most: int = 4) -> str:
        return " ".join(self.word() for _ in range(self.dice.randrange(0, most)))

    def condition(self) -> str:
        dice = self.dice
        first, second = f'"{self.parameter()}"', quote(dice.choice(TEXTS))
        number = f"$(({self.number()}))"
        return self.pick(
            f"[ -z {first} ]", f"[ -n {first} ]", f"[ {first} = {second} ]", f"[ {first} != {second} ]", f"[[ {first} == {self.pick('a*', '*x*', '?', '[0-9]*', second)} ]]",
            f"[[ -n {self.parameter()} && {first} != x ]]", f"[ {number} -gt 3 ]", f"(( {self.number()} ))", "true", "false", f"! [ -n {first} ]", f"[[ {first} =~ ^[a-z]+ ]]",
            f"[[ ! {first} == x || -z {second} ]]", f"[ {first} = x -o -n {second} ]", f"test {number} -le 5", "[ $# -gt 1 ]", f"[ {first} == {self.parameter()} ]",
            '[ -n "${LIST[*]}" ]', "[ -d / ]", "[ -f /no/such/file ]", f"[[ {number} -lt 4 ]]",
        )  # fmt: skip

    def block(self, indent: str) -> str:
        self.depth += 1
        lines = "\n".join(self.statement(indent + "  ") for _ in range(self.dice.randrange(1, 4)))
        self.depth -= 1
        return lines

    def launch(self) -> str:
        prefix = self.pick("", "", "", f"X={self.word(split=False)} ", f"{self.name()}={self.word(split=False)} Y=1 ")
        joined = self.pick(" ", " ", " \\\n    ")
        tail = self.pick("", "", "", " 2>&1", " > /dev/null", " 2>&1 | cat", " &>/dev/null", " </dev/null", " &\nwait")
        return f"{prefix}{ENTRY}{joined}{self.words(5)}{tail}"

    def statement(self, indent: str = "") -> str:
        dice = self.dice
        kinds = ["assign"] * 4 + ["launch"] * 3 + ["array", "export", "append", "set", "unset", "declare", "status", "arith"]
        if self.depth < 3:
            kinds += ["if", "if", "case", "for", "cfor", "while", "andor", "function", "call", "group", "subshell", "eval"]
        kind = dice.choice(kinds)
        return indent + getattr(self, "_" + kind)(indent)

    def _assign(self, _indent: str) -> str:
        return f"{self.name()}={self.word(split=False)}"

    def _launch(self, _indent: str) -> str:
        return self.launch()

    def _array(self, _indent: str) -> str:
        name = self.dice.choice(ARRAYS)
        return self.pick(
            f"{name}=({self.words()})", f"{name}+=({self.words()})", f"{name}=(\n  {self.word()} # note\n  # more\n  {self.words()}\n)",
            f"{name}[{self.pick('0', '1', '${#' + name + '[@]}', 'N % 3')}]={self.word(split=False)}", f"{name}=()", f"{name}+=({self.arrays()})",
        )  # fmt: skip

    def _export(self, _indent: str) -> str:
        name = self.name()
        return self.pick(
            f"export {name}",
            f"export {name}={self.word(split=False)}",
            f"export {name}=1 B={self.word(split=False)}",
            f"export -n {name}",
            f"declare -x {name}={self.word(split=False)}",
        )

    def _append(self, _indent: str) -> str:
        return f"{self.name()}+={self.word(split=False)}"

    def _set(self, _indent: str) -> str:
        return self.pick(f"set -- {self.words()}", "shift || true", f'set -- {self.word()} "$@"', "shift 2 || true")

    def _unset(self, _indent: str) -> str:
        return self.pick(f"unset {self.name()}", f"unset {self.dice.choice(ARRAYS)}", "unset 'LIST[0]'")

    def _declare(self, _indent: str) -> str:
        return self.pick(
            f"declare -i N=$((({self.number()}) % 100))",
            "N=$((N + 1))",
            f"M=$(({self.number()}))",
            "((N++))",
            "((M = N * 2, N += 1)) || true",
            "let N=N+2",
            ": ${B:=fallback}",
            "M=7",
        )

    def _status(self, _indent: str) -> str:
        return self.pick(
            f"{self.condition()} && {self.launch()}",
            f"{self.condition()} || A=changed",
            "cd /usr",
            "cd /",
            ": note",
            "echo text >/dev/null",
        )

    def _arith(self, _indent: str) -> str:
        return f"{self.name()}=$(({self.number()}))"

    def _if(self, indent: str) -> str:
        text = f"if {self.condition()}; then\n{self.block(indent)}\n"
        if self.dice.random() < 0.4:
            text += f"{indent}elif {self.condition()}; then\n{self.block(indent)}\n"
        if self.dice.random() < 0.5:
            text += f"{indent}else\n{self.block(indent)}\n"
        return text + f"{indent}fi"

    def _case(self, indent: str) -> str:
        items = ""
        for _ in range(self.dice.randrange(1, 4)):
            patterns = "|".join(
                self.dice.choice([pattern for pattern in PATTERNS if pattern]) for _ in range(self.dice.randrange(1, 3))
            )
            items += f"{indent}  {self.pick('', '(')}{patterns})\n{self.block(indent + '  ')}\n{indent}  {self.pick(';;', ';;', ';;', ';&', ';;&')}\n"
        return f"case {self.word(split=False)} in\n{items}{indent}esac"

    def _for(self, indent: str) -> str:
        self.loops += 1
        extra = self.pick("", "", f"\n{indent}  {self.condition()} && {self.pick('break', 'continue')}")
        words = self.pick(" in " + self.words(4), ' in "$@"', "", ' in "${LIST[@]}"')
        return f"for {self.name()}{words}; do\n{self.block(indent)}{extra}\n{indent}done"

    def _cfor(self, indent: str) -> str:
        counter = f"i{self.dice.randrange(1000)}"
        return f"for (({counter} = 0; {counter} < {self.dice.randrange(0, 4)}; {counter}++)); do\n{self.block(indent)}\n{indent}done"

    def _while(self, indent: str) -> str:
        counter = f"W{self.dice.randrange(1000)}"
        return f"{counter}=0\n{indent}while [ ${counter} -lt {self.dice.randrange(0, 3)} ]; do\n{indent}  {counter}=$(({counter} + 1))\n{self.block(indent)}\n{indent}done"

    def _andor(self, indent: str) -> str:
        return f"{self.condition()} {self.pick('&&', '||')} {self.condition()} {self.pick('&&', '||')} {{\n{self.block(indent)}\n{indent}}}"

    def _function(self, indent: str) -> str:
        if self.in_function:
            return ": nested"
        self.in_function = True
        name = f"f{len(self.functions) + 1}"
        local = self.pick(
            "",
            f"{indent}  local A={self.word(split=False)}\n",
            f"{indent}  local -a LIST=(l1 'l 2')\n",
            f"{indent}  local C=3 MORE=\n",
        )
        tail = self.pick(
            "", f"\n{indent}  {self.condition()} && return 0", f"\n{indent}  return 1", f'\n{indent}  echo "out $1"'
        )
        text = f"{self.pick(name + '()', 'function ' + name)} {{\n{local}{self.block(indent)}{tail}\n{indent}}}"
        self.in_function = False
        self.functions.append(name)
        if self.depth == 0:
            self.certain.append(name)
        return text

    def _call(self, _indent: str) -> str:
        if not self.functions or self.in_function:
            return ": no call"
        return f"{self.dice.choice(self.functions)} {self.words()} || true"

    def _group(self, indent: str) -> str:
        return f"{{\n{self.block(indent)}\n{indent}}}{self.pick('', ' 2>/dev/null', ' > /dev/null')}"

    def _subshell(self, indent: str) -> str:
        return f"(\n{self.block(indent)}\n{indent}){self.pick('', ' || true', ' &' + chr(10) + indent + 'wait')}"

    def _eval(self, _indent: str) -> str:
        return self.pick("eval A=evaluated", f"eval {quote(ENTRY + ' e=1')}", 'eval "B=\\$A"')


def script(dice: random.Random) -> str:
    writer = Writer(dice)
    head = dice.choice(
        ["", "", "", "set -u\n", "set -e\n", "set -euo pipefail\n", "IFS=,\n", "set -f\n", "shopt -s nullglob\n"]
    )
    lines = [writer.statement() for _ in range(dice.randrange(2, 9))]
    return f"#!/bin/bash\n{head}N=2\nM=5\n" + "\n".join(lines) + "\n" + writer.launch() + "\n"


STUB = """#!/bin/sh
exec >> "$DUMP" 2>/dev/null
printf '\\036'
printf '%s\\0' python3 "$@"
printf '\\037'
env -0
"""
OUTSIDE = {"HOME": "/home/tester", "A": "from outside", "LC_ALL": "C.UTF-8"}
COMPARED = ("A", "B", "C", "LONG_name", "X", "Y", "HOME")


def bash_version():
    bash = shutil.which("bash")
    if bash is None:
        return 0
    text = subprocess.run([bash, "-c", "echo $BASH_VERSINFO"], capture_output=True, text=True, check=False).stdout
    return int(text) if text.strip().isdigit() else 0


pytestmark = pytest.mark.skipif(bash_version() < 5, reason="needs bash 5")


def prepare(folder: Path) -> Path:
    """A folder with the stub that writes down how it was called."""
    stubs = folder / "bin"
    stubs.mkdir(parents=True, exist_ok=True)
    stub = stubs / "python3"
    stub.write_text(STUB)
    stub.chmod(0o755)
    for tool in ("env", "sh", "cat", "basename", "dirname", "seq"):
        if not (stubs / tool).exists():
            (stubs / tool).symlink_to(shutil.which(tool))
    (folder / "empty").mkdir(exist_ok=True)
    return folder


def run_bash(path: Path, folder: Path, arguments: list[str]) -> list[tuple[list[str], dict[str, str]]]:
    """The calls that bash made: arguments and environment."""
    dump = path.with_suffix(".dump")
    dump.write_bytes(b"")
    environment = {**OUTSIDE, "PATH": str(folder / "bin"), "DUMP": str(dump)}
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        [shutil.which("bash"), str(path), *arguments], env=environment, cwd=folder / "empty", start_new_session=True, **silent
    )
    try:
        process.wait(timeout=20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    calls = []
    for call in dump.read_bytes().decode("utf-8", "replace").split("\036")[1:]:
        words, _, variables = call.partition("\037")
        pairs = (item.partition("=") for item in variables.split("\0") if item)
        calls.append((words.split("\0")[:-1], {name: value for name, _, value in pairs}))
    dump.unlink()
    return calls


def fits(pattern: str, text: str) -> bool:
    """Whether a text with unknown parts can be this text."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split(UNKNOWN)), text, re.DOTALL) is not None


def words_fit(found: list[str], real: list[str]) -> bool:
    """Whether the words can be these; an unknown one may be several or none."""
    if not any(UNKNOWN in word for word in found):
        return found == real
    joined, wanted = "\0".join(found), "\0".join(real)
    return fits(joined, wanted) or fits(joined.replace("\0" + UNKNOWN, UNKNOWN), wanted)


def value_of(launch, name: str) -> str | None:
    variable = launch.environment.get(name)
    if variable is None:
        return None
    return variable.value.reveal() if isinstance(variable.value, Secret) else variable.value


def disagreement(text: str, folder: Path, arguments: list[str]) -> str:
    """What the reader says otherwise than bash, empty when nothing. A script that was given up is no disagreement."""
    path = folder / "script.sh"
    path.write_text(text)
    variables = OUTSIDE | {"PATH": str(folder / "bin")}
    environment = {name: make_variable(name, value, Source("shell", "environment")) for name, value in variables.items()}
    script = read_script(str(path), arguments, environment, str(folder / "empty"))
    given_up = any(note.kind in ("undecidable", "unset-under-u") for note in script.notes)
    if given_up or any(launch.condition for launch in script.launches):
        return ""
    calls = run_bash(path, folder, arguments)
    if len(calls) != len(script.launches):
        return f"{len(script.launches)} launches, bash makes {len(calls)}"
    for launch, (words, variables) in zip(script.launches, calls, strict=True):
        found = [word.text for word in launch.arguments]
        if not words_fit(found, words):
            return f"line {launch.line}: {found}, bash passes {words}"
        if not fits(launch.directory, variables["PWD"]):
            return f"line {launch.line}: the directory is {launch.directory}, for bash {variables['PWD']}"
        for name in COMPARED:
            mine, real = value_of(launch, name), variables.get(name)
            if mine != real and not (mine is not None and UNKNOWN in mine and (real is None or fits(mine, real))):
                return f"line {launch.line}: {name} is {mine!r}, for bash {real!r}"
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("bash"))


# Shrinking a script takes minutes and helps little: the failing one is shown.
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(dice=st.randoms(use_true_random=False), arguments=st.sampled_from([[], ["one", "two words"]]))
def test_a_random_script_is_read_as_bash_runs_it(folder, dice, arguments):
    text = script(dice)
    assert disagreement(text, folder, arguments) == "", text


@pytest.mark.parametrize("seed", range(40))
def test_a_long_random_script_is_read_as_bash_runs_it(folder, seed):
    text = script(random.Random(seed))
    assert disagreement(text, folder, ["one", "two words"] if seed % 2 else []) == "", text


def test_most_random_scripts_are_decided(folder):
    decided = 0
    for seed in range(60):
        (folder / "script.sh").write_text(script(random.Random(seed)))
        read = read_script(str(folder / "script.sh"), ["one"], {}, str(folder / "empty"))
        decided += not any(launch.condition for launch in read.launches)
    assert decided >= 55
