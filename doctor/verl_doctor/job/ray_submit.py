"""The options of `ray job submit` (ray 2.60.0, dashboard/modules/job/cli.py and cli_utils.py)."""

from __future__ import annotations

from verl_doctor.job.launch import Launch, NotAVerlLaunch
from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.runtime_env import RuntimeEnv, read_runtime_env_file, read_runtime_env_json

_FLAGS = frozenset({"--no-wait", "-v", "--verbose", "--help"})


def read_options(words: list[Argument], launch: Launch, directory: str) -> list[Argument]:
    """Record what the options say and return the words of the entrypoint. Raises BadInput for an unreadable runtime_env."""
    options, entrypoint = _split(words)
    if not entrypoint:
        raise NotAVerlLaunch("`ray job submit` has no command after its options")
    launch.submits_to_cluster = True
    launch.unknown_python = "the job runs on a Ray cluster"
    address = options.get("--address")
    launch.address = address.text if address else ""
    runtime_env = _runtime_env(options, launch, directory)
    launch.runtime_env = runtime_env.variables
    given = options.get("--working-dir")
    launch.working_dir = given.text if given else runtime_env.working_dir
    return entrypoint


def _split(words: list[Argument]) -> tuple[dict[str, Argument], list[Argument]]:
    options: dict[str, Argument] = {}
    place = 0
    while place < len(words) and words[place].text.startswith("-"):
        word = words[place]
        place += 1
        if word.text == "--":
            break
        name, equals, value = word.text.partition("=")
        if equals:
            options[name] = Argument(value, word.location, word.unknown)
        elif name not in _FLAGS and place < len(words):
            options[name] = words[place]
            place += 1
    return options, words[place:]


def _runtime_env(options: dict[str, Argument], launch: Launch, directory: str) -> RuntimeEnv:
    file, text = options.get("--runtime-env"), options.get("--runtime-env-json")
    for given in (file, text):
        if given is not None and UNKNOWN in given.text:
            launch.adds_environment = f"the runtime_env of the job may set it, which is not known: {given.unknown}"
            return RuntimeEnv()
    if file is not None:
        return read_runtime_env_file(file.text, directory)
    return read_runtime_env_json(text.text) if text is not None else RuntimeEnv()
