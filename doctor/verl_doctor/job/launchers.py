"""What the programs in front of python change: the environment, the directory, the Python that runs.

Each function gets the program's options (the words between it and the next program) and records what they do to the launch.
Options that change nothing of that are not looked at, so new ones do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from verl_doctor.job.launch import Launch, is_assignment
from verl_doctor.job.model import Argument
from verl_doctor.job.variables import brief

Effect = Callable[[str, list[Argument], Launch], None]


def option_values(options: list[Argument], *names: str) -> Iterator[Argument]:
    """The values of an option, written `--name value`, `--name=value` or `-xvalue`."""
    for place, option in enumerate(options):
        for name in names:
            if option.text == name and place + 1 < len(options):
                yield options[place + 1]
            elif name.startswith("--") and option.text.startswith(name + "="):
                yield Argument(option.text[len(name) + 1 :], option.location, option.unknown)
            elif len(name) == 2 and option.text.startswith(name) and len(option.text) > 2:
                yield Argument(option.text[2:], option.location, option.unknown)


def has_option(options: list[Argument], *names: str) -> bool:
    """Whether one of these options is there, with or without `=value`."""
    return any(option.text in names or option.text.split("=", 1)[0] in names for option in options)


def _nothing(_program: str, _options: list[Argument], _launch: Launch) -> None:
    """The program passes everything on."""


def _container(program: str, options: list[Argument], launch: Launch) -> None:
    launch.start_over(f"{program} gives the container its own environment", others=f"the image of {program} may set it")
    launch.unknown_python = launch.other_machine = f"the job runs in a container of {program}"
    for value in option_values(options, "-e", "--env"):
        if is_assignment(value):
            launch.assign(value)


def _apptainer(program: str, options: list[Argument], launch: Launch) -> None:
    launch.unknown_python = f"the job runs in a container of {program}"
    image = f"the image of {program} may set it"
    if has_option(options, "-e", "--cleanenv", "-C", "--containall"):
        launch.start_over(f"{program} --cleanenv keeps the variables of the shell out", others=image)
    launch.adds_environment = launch.adds_environment or image
    for value in option_values(options, "--env"):
        for part in value.text.split(","):
            _assign_text(part, value, launch)


def _assign_text(text: str, word: Argument, launch: Launch) -> None:
    argument = Argument(text, word.location, word.unknown)
    if is_assignment(argument):
        launch.assign(argument)


def _remote(program: str, _options: list[Argument], launch: Launch) -> None:
    launch.start_over(f"{program} starts the command on another machine", others="that machine's own settings may set it")
    launch.unknown_python = launch.other_machine = f"{program} starts the command on another machine"


def _sudo(program: str, options: list[Argument], launch: Launch) -> None:
    if not any(option.text in ("-E", "--preserve-env") for option in options):
        rules = f"the rules of {program} may keep or set it"
        launch.start_over(f"{program} without -E drops the variables of the shell", others=rules)
    for option in options:
        _assign_text(option.text, option, launch)


def _slurm(program: str, options: list[Argument], launch: Launch) -> None:
    launch.other_machine = launch.other_machine or f"{program} starts the command on a machine that Slurm chooses"
    if has_option(options, "--container-image", "--container-name"):
        launch.unknown_python = f"the job runs in a container of {program}"
        launch.adds_environment = launch.adds_environment or f"the container of {program} may set it"
    for value in option_values(options, "--export"):
        parts = value.text.split(",")
        if "ALL" not in parts:
            launch.start_over(
                f"{program} --export without ALL keeps the variables of the shell out", others="Slurm may keep or set it"
            )
        for part in parts:
            _assign_text(part, value, launch)
    for value in option_values(options, "--chdir", "-D"):
        launch.change_directory(value.text)


def _mpi(program: str, options: list[Argument], launch: Launch) -> None:
    launch.other_machine = launch.other_machine or f"{program} may start the command on other machines"
    for value in option_values(options, "-x", "-genv", "-env"):
        _assign_text(value.text, value, launch)


def _activates(program: str, _options: list[Argument], launch: Launch) -> None:
    launch.unknown_python = f"'{program} run' chooses the Python environment"
    launch.adds_environment = launch.adds_environment or f"'{program} run' may set it when it activates its environment"


def _poetry(program: str, _options: list[Argument], launch: Launch) -> None:
    launch.unknown_python = f"'{program} run' chooses the Python environment"


def _uv(program: str, options: list[Argument], launch: Launch) -> None:
    launch.unknown_python = f"'{program} run' installs what the project asks for before it starts"
    if has_option(options, "--env-file"):
        launch.adds_environment = launch.adds_environment or f"the --env-file of '{program} run' may set it"
    for value in option_values(options, "--directory"):
        launch.change_directory(value.text)


def unrecognised(program: str, _options: list[Argument], launch: Launch) -> None:
    """A program that is not known here: what it passes on is not known either."""
    reason = f"what {brief(program)} passes on to the command is not known"
    launch.start_over(reason, others=reason)
    launch.unknown_python = launch.unknown_python or reason
    launch.other_machine = launch.other_machine or reason


BUILTINS = frozenset({"exec", "command", "builtin", "!"})
"""Words that only a shell understands, so no other program starts them; `docker exec` means something else."""

_TRANSPARENT = BUILTINS | frozenset(
    {"nohup", "time", "timeout", "nice", "ionice", "chrt", "stdbuf", "numactl", "taskset", "setsid", "unbuffer", "script"}
    | {"catchsegv", "tini", "dumb-init", "prlimit", "nsys", "ncu", "py-spy", "strace", "ltrace", "perf", "gdb", "valgrind"}
    | {"xvfb-run", "systemd-inhibit", "chronic", "ts", "accelerate", "deepspeed"}
)

EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), _container),
    **dict.fromkeys(("apptainer", "singularity"), _apptainer),
    **dict.fromkeys(("ssh", "pdsh", "kubectl", "oc", "sky", "modal", "gcloud"), _remote),
    **dict.fromkeys(("sudo", "doas"), _sudo),
    **dict.fromkeys(("srun", "sbatch", "salloc"), _slurm),
    **dict.fromkeys(("mpirun", "mpiexec", "orterun"), _mpi),
    **dict.fromkeys(("conda", "mamba", "micromamba", "pixi", "pipenv", "pdm", "hatch", "rye"), _activates),
    "poetry": _poetry,
    "uv": _uv,
    "uvx": _uv,
    **dict.fromkeys(_TRANSPARENT, _nothing),
}
"""By name of the program: what it does to the launch."""

TAKES_MODULES = frozenset({"uv", "uvx", "accelerate", "deepspeed"})
"""Programs that start a module (`-m`) or a script themselves, without the word `python`."""
