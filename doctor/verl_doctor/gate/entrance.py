"""What runs in the front doors and in the hook.

The text of this file is written into them (see `install`), so it runs in any Python from 3.10 on and imports only what every
interpreter has built in. It takes the words and the environment from /proc: they are there byte for byte, while Python decodes
the words and, in the C locale, sets LC_CTYPE.
"""

import posix
import sys

GATE = b"VERL_DOCTOR_GATE"
SEEN = b"VERL_DOCTOR_SEEN"
ENOEXEC = 8

_TRAINERS = (
    "verl.trainer",
    "verl.experimental",
    "verl/trainer/",
    "verl/experimental/",
    "recipe.",
    "recipe/",
    "main_ppo",
    "sft_trainer",
)
_SETTINGS = (
    "actor_rollout_ref.", "trainer.", "data.", "algorithm.", "critic.", "reward.", "reward_model.", "custom_reward_function.",
    "model.partial_pretrain",
)  # fmt: skip


def may_start_verl(words: "list[str]") -> bool:
    """Whether it is worth to look closer at a command with these words; says yes too often rather than too seldom."""
    if "verl_doctor" in words or (words and words[0].rpartition("/")[2] == "verl-doctor"):
        return False
    settings = 0
    for word in words:
        for part in _TRAINERS:
            if part in word:
                return True
        settings += "=" in word and word.lstrip("+~").startswith(_SETTINGS)
    return settings > 1


def own_words() -> "list[bytes]":
    """The words of this process, from that of the interpreter on."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read()[:-1].split(b"\0")
    except OSError:
        return [word.encode(sys.getfilesystemencoding(), "surrogateescape") for word in sys.orig_argv]


def own_environment() -> "dict[bytes, bytes]":
    """The environment that this process was started with."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    except OSError:
        return dict(posix.environ)
    return {name: value for name, equals, value in entries if name and equals}


def restored(environment: "dict[bytes, bytes]", root: bytes) -> "dict[bytes, bytes]":
    """The environment as it would be without the doors, whatever the command has done to PATH and PYTHONPATH meanwhile.

    The name of the hook's folder says what PYTHONPATH was before: where it was unset or empty, `$PYTHONPATH:/more` would have
    become `:/more`.
    """
    result = {name: value for name, value in environment.items() if name not in (GATE, SEEN)}
    if b"PATH" in result:
        result[b"PATH"] = b":".join(entry for entry in result[b"PATH"].split(b":") if entry != root + b"/bin")
    entries = result.get(b"PYTHONPATH", b"").split(b":")
    if entries == [root + b"/hook/unset"]:
        del result[b"PYTHONPATH"]
    elif b"PYTHONPATH" in result:
        alone = (root + b"/hook/unset", root + b"/hook/empty")
        kept = [b"" if entry in alone else entry for entry in entries if entry != root + b"/hook/first"]
        result[b"PYTHONPATH"] = b":".join(kept)
    return result


def find_program(name: bytes, environment: "dict[bytes, bytes]", doors: bytes = b"") -> bytes:
    """The path of the program that PATH leads to past the folder of the doors, empty when there is none."""
    for folder in environment.get(b"PATH", b"").split(b":"):
        path = (folder or b".") + b"/" + name
        if folder != doors and _is_program(path):
            return path
    return b""


def _is_program(path: bytes) -> bool:
    try:
        mode = posix.stat(path).st_mode
    except OSError:
        return False
    return mode & 0o170000 == 0o100000 and posix.access(path, posix.X_OK)


def start(program: bytes, words: "list[bytes]", environment: "dict[bytes, bytes]") -> None:
    """Become the program. Returns only when that fails, after a line on stderr.

    Python ignores SIGPIPE and SIGXFSZ, and what is ignored stays so in the next program: both are set back. A script without a
    first line that names its interpreter goes to sh, as execvp does it.
    """
    import _signal  # type: ignore[import-not-found]  # `signal` takes milliseconds to import

    ignored = (_signal.SIGPIPE, _signal.SIGXFSZ)
    for number in ignored:
        _signal.signal(number, _signal.SIG_DFL)
    try:
        try:
            posix.execve(program, words, environment)
        except OSError as error:
            if error.errno != ENOEXEC:
                raise
            posix.execve(b"/bin/sh", [b"sh", program, *words[1:]], environment)
    except OSError as error:
        for number in ignored:
            _signal.signal(number, _signal.SIG_IGN)
        sys.stderr.write(f"verl-doctor: {program.decode('utf-8', 'replace')} cannot be started: {error.strerror}\n")


def judge(root: bytes, python: bytes, program: bytes, words: "list[bytes]", environment: "dict[bytes, bytes]") -> None:
    """Become the doctor, which checks the words and then starts the program. Returns only when that fails."""
    start(python, [python, b"-I", root + b"/judge.py", program, *words], environment)


def door(root: bytes, python: bytes) -> None:
    """A front door: the words of this process are the interpreter, its option, the door, and then those of the command."""
    _, _, path, *words = own_words()
    name = path.rpartition(b"/")[2]
    environment = own_environment()
    program = find_program(name, environment, root + b"/bin")
    if not program:
        sys.stderr.write(f"verl-doctor: {name.decode()}: command not found\n")
        sys.exit(127)
    if environment.get(b"_") == path:
        environment[b"_"] = program
    text = [word.decode("latin-1") for word in words]
    # What `ray` starts on this machine lives longer than the command: it gets no doors.
    lasting = name == b"ray"
    if GATE in environment and may_start_verl(text) and (not lasting or text[:2] == ["job", "submit"]):
        judge(root, python, program, [name, *words], environment)
    elif lasting or GATE not in environment:
        start(program, [name, *words], restored(environment, root))
    else:
        # Python looks for its own files from the first word on, and by its bare name it would find the door in PATH.
        start(program, [program, *words], environment)
    sys.exit(126)


def hook(root: bytes, python: bytes) -> None:
    """The start of any Python that has the hook's folder in its path: leaves the path, looks at the words, and makes way."""
    import os

    folder = os.fsdecode(root) + "/hook/"
    _leave_path(folder)
    words = getattr(sys, "orig_argv", [])
    name = words[1].rpartition("/")[2] if len(words) > 1 else ""
    looked_at = posix.environ.get(SEEN) == str(os.getpid()).encode()
    os.environ.pop("VERL_DOCTOR_SEEN", None)
    if GATE in posix.environ and not looked_at and may_start_verl(words[1:]):
        program = os.fsencode(sys.executable or os.readlink("/proc/self/exe"))
        judge(root, python, program, own_words(), own_environment())
        sys.stderr.write("verl-doctor: the launch was not checked\n")
        name = "ray"
    if name == "ray":
        environment = restored(dict(os.environb), root)
        for variable in set(os.environb) - set(environment):
            del os.environb[variable]
        os.environb.update(environment)
    _next_hook()


def _leave_path(folder: str) -> None:
    """Take the hook's folder out of sys.path. An empty entry that it stands for is the current directory."""
    import os

    for place, entry in enumerate(sys.path):
        if entry.startswith(folder):
            del sys.path[place]
            joined = os.environ.get("PYTHONPATH", "") != entry and not entry.endswith("/first")
            if joined and os.getcwd() not in sys.path:
                sys.path.insert(place, os.getcwd())
            return


def _next_hook() -> None:
    """Run the `sitecustomize` that this one hides, as Python would have done."""
    hidden = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = hidden
