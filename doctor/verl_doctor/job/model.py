"""The effective job as typed data: what the process that logs will see, and where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from verl_doctor.registry import Undetermined
from verl_doctor.report import Location
from verl_doctor.secrets import Secret, protect, scrub_all

UNKNOWN = "\ue000"
"""Stands in a text for a part that cannot be known without running the job (a private-use character, never in real input)."""

PROBE_S = 5.0
"""Seconds for one look at a server, unless the user says otherwise."""

SourceKind = Literal[
    "override",
    "config-file",
    "verl-default",
    "built-in",
    "command",
    "shell",
    "env-file",
    "option",
    "runtime-env",
    "script",
]


class Source(msgspec.Struct, frozen=True):
    """Where a value came from. `text` is what a person is shown, without the location."""

    kind: SourceKind
    text: str
    location: Location | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.location})" if self.location else self.text


class Argument(msgspec.Struct, frozen=True):
    """One word of a command. A part that cannot be known is `UNKNOWN` in the text, and `unknown` says why."""

    text: str
    location: Location | None = None
    unknown: str = ""


class Setting(msgspec.Struct, frozen=True):
    """One value of the composed configuration. Credentials are `Secret`s. `unknown` says why the value cannot be known."""

    key: str
    value: Any
    source: Source
    unknown: str = ""


ProblemKind = Literal[
    "grammar",
    "not-in-struct",
    "append-existing",
    "ambiguous-list",
    "missing-group",
    "delete-missing",
    "wrong-type",
    "interpolation",
    "config-not-found",
    "unknown-option",
    "other",
]


class ConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that Hydra refuses. `column` counts from 1 in the override; `corrected` is one that works, when known."""

    kind: ProblemKind
    override: str
    key: str
    reason: str
    source: Source
    column: int | None = None
    corrected: str | None = None
    character: str = ""


class Verl(msgspec.Struct, frozen=True, kw_only=True):
    """The verl whose defaults the job uses. `origin` `built-in`: none was found, what is known of `version` was used."""

    version: str
    origin: Literal["installed", "path", "built-in"]
    path: str = ""
    assumed: bool = False

    def __str__(self) -> str:
        known = {"installed": "installed", "path": self.path, "built-in": "built-in knowledge"}[self.origin]
        return f"verl {self.version} ({known})"

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers of the version, for comparing: `0.9.1` → (0, 9, 1); a `.dev` release counts as its release."""
        numbers: list[int] = []
        for part in self.version.split("."):
            if not part.isdigit():
                break
            numbers.append(int(part))
        return tuple(numbers)


TrainerKind = Literal["ppo", "sft", "sft_ray", "fully_async", "one_step_off", "recipe", "generation", "evaluation"]

LOGGER_ALIASES = {"tracking": "wandb"}


class Job(msgspec.Struct, kw_only=True):
    """What one launch of verl will do.

    `settings` holds every leaf of the composed configuration (`exact`) or what was given and what is known of verl's defaults.
    Lists are one leaf. `shadowed` are overrides that a later one of the same key replaced, `unknown_arguments` words of the
    command that may set anything, such as a variable of the script that holds overrides.
    """

    entry: str
    kind: TrainerKind
    verl: Verl
    command: list[str] = msgspec.field(default_factory=list)
    launchers: list[str] = msgspec.field(default_factory=list)
    directory: str = ""
    config_name: str = ""
    exact: bool = True
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    appended: list[str] = msgspec.field(default_factory=list)
    shadowed: list[Setting] = msgspec.field(default_factory=list)
    unknown_arguments: list[Argument] = msgspec.field(default_factory=list)
    problems: list[ConfigProblem] = msgspec.field(default_factory=list)
    name: str = ""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, `default` when the configuration has none; raises Undetermined when it cannot be known."""
        setting = self.settings.get(key)
        if setting is None:
            return default
        if setting.unknown:
            raise Undetermined(f"{key} is not known: {setting.unknown} ({setting.source})", essential=key == "trainer.logger")
        return setting.value

    def under(self, prefix: str) -> dict[str, Setting]:
        """The settings below a key, by the rest of their key."""
        start = prefix + "."
        return {key[len(start) :]: setting for key, setting in self.settings.items() if key.startswith(start)}

    @property
    def given_loggers(self) -> list[Any]:
        """`trainer.logger` as verl iterates it: a string is one name. Raises Undetermined when it cannot be known."""
        value = self.get("trainer.logger")
        if isinstance(value, str):
            return [value]
        return list(value) if isinstance(value, (list, tuple)) else []

    @property
    def loggers(self) -> list[str]:
        """The trackers that verl will build, without repeats, aliases resolved (`tracking` is wandb)."""
        names = [LOGGER_ALIASES.get(name, name) for name in self.given_loggers if isinstance(name, str)]
        return list(dict.fromkeys(names))

    @property
    def uses_ray(self) -> bool:
        """Whether the loggers are built in a Ray actor rather than in the launched process."""
        return self.kind not in {"sft", "sft_ray"}

    @classmethod
    def example(cls, plain: Mapping[str, Any] | None) -> Job:
        """A job for a row of an example: keys with a dot are settings (as overrides), others are attributes.

        `verl` is a version; `unknown` maps keys to reasons; `problems` and `shadowed` are plain data.
        """
        plain = dict(plain or {})
        version = plain.pop("verl", "0.9.1")
        unknown = plain.pop("unknown", {})
        source = Source("override", "override")
        settings = {key: Setting(key, protect(key, plain.pop(key)), source) for key in list(plain) if "." in key}
        settings |= {key: Setting(key, None, source, reason) for key, reason in unknown.items()}
        if "trainer.logger" not in settings:
            settings["trainer.logger"] = Setting("trainer.logger", ["console", "wandb"], Source("verl-default", "default"))
        attributes = msgspec.convert(
            {
                "entry": "verl.trainer.main_ppo",
                "kind": "ppo",
                "name": "job",
                "verl": {"version": version, "origin": "installed"},
            }
            | plain,
            cls,
        )
        attributes.settings = settings
        return attributes


class Variable(msgspec.Struct, frozen=True):
    """An environment variable of the process that logs."""

    name: str
    value: str | Secret
    source: Source
    unknown: str = ""


class Environment(msgspec.Struct, kw_only=True):
    """The environment of the process that logs.

    `unseen` is empty when all of it is known. Otherwise it says why variables that are not in `variables` may still be set
    there (the Ray cluster was started by somebody else). `left_behind` are variables of the launching shell that do not get
    there.
    """

    variables: dict[str, Variable] = msgspec.field(default_factory=dict)
    left_behind: dict[str, Variable] = msgspec.field(default_factory=dict)
    unseen: str = ""

    def get(self, name: str) -> str | Secret | None:
        """The value, None when it is not set; raises Undetermined when that cannot be known."""
        variable = self.variables.get(name)
        if variable is None:
            if self.unseen:
                raise Undetermined(f"{name} is not known: {self.unseen}")
            return None
        if variable.unknown:
            raise Undetermined(f"{name} is not known: {variable.unknown} ({variable.source})")
        return variable.value

    def text(self, name: str, default: str = "") -> str:
        """The value as text, `default` when it is not set; raises Undetermined when it cannot be known."""
        value = self.get(name)
        return default if value is None else str(value)

    def given(self, name: str) -> Variable | None:
        """The variable when it is certainly set, None otherwise; never raises."""
        return self.variables.get(name)

    @classmethod
    def example(cls, plain: Mapping[str, Any] | None) -> Environment:
        """An environment for a row of an example: variables by name; `unseen` and `left_behind` as they are."""
        plain = dict(plain or {})
        unseen = plain.pop("unseen", "")
        left_behind = plain.pop("left_behind", {})
        source = Source("shell", "environment")

        def variables(values: Mapping[str, str]) -> dict[str, Variable]:
            return {name: Variable(name, protect(name, value), source) for name, value in values.items()}

        return cls(variables=variables(plain), left_behind=variables(left_behind), unseen=unseen)


class Packages(msgspec.Struct, kw_only=True):
    """The installed distributions of the job's Python, by canonical name. `unseen` says why they are not known, if so."""

    versions: dict[str, str] = msgspec.field(default_factory=dict)
    unseen: str = ""

    def version(self, name: str) -> str | None:
        """The version, None when it is not installed; raises Undetermined when the job's Python could not be looked at."""
        if name not in self.versions and self.unseen:
            raise Undetermined(f"whether {name} is installed is not known: {self.unseen}")
        return self.versions.get(name)

    def release(self, name: str) -> tuple[int, ...] | None:
        """The version as numbers for comparing, None when it is not installed; raises Undetermined."""
        version = self.version(name)
        return None if version is None else Verl(version=version, origin="installed").release

    @classmethod
    def example(cls, plain: Mapping[str, Any] | None) -> Packages:
        """Versions by name for a row of an example; what is left out has a current version, None means not installed."""
        current = {
            "wandb": "0.31.0", "mlflow": "3.17.2", "swanlab": "0.10.3", "tensorboard": "2.21.0",
            "trackio": "0.43.0",
            "torch": "2.13.0", "ray": "2.60.0", "clearml": "2.0.0", "swanboard": "0.1.10", "sqlalchemy": "2.1.9",
        }  # fmt: skip
        plain = dict(plain or {})
        unseen = plain.pop("unseen", "")
        versions = {name: version for name, version in (current | plain).items() if version is not None}
        return cls(versions={} if unseen else versions, unseen=unseen)


class ScriptNote(msgspec.Struct, frozen=True):
    """Something in a launch script that deserves a look, by its kind; `values` never hold a credential."""

    kind: str
    values: dict[str, str]
    location: Location


class Request(msgspec.Struct, kw_only=True):
    """What the user asked to be checked: a launch command or overrides alone, and where to look for the rest.

    A launch that stands in a script comes with the script's `notes`, with `unseen` that says why variables which are not in
    `environment` may be set all the same, and with the `condition` under which it runs, each empty when there is none.
    `probe_timeout` is seconds for one look at a server. `live`: round trips through the trackers were asked for.
    """

    command: list[Argument] = msgspec.field(default_factory=list)
    overrides: list[Argument] = msgspec.field(default_factory=list)
    config_file: str = ""
    config_path: str = ""
    config_name: str = ""
    config_dir: str = ""
    verl_path: str = ""
    verl_version: str = ""
    environment: dict[str, Variable] = msgspec.field(default_factory=dict)
    directory: str = ""
    name: str = "job"
    notes: list[ScriptNote] = msgspec.field(default_factory=list)
    unseen: str = ""
    condition: str = ""
    probe_timeout: float = PROBE_S
    live: bool = False


def plain(value: Any) -> Any:
    """A value as plain data that may be printed: secrets redacted, other objects as text."""
    if isinstance(value, Secret):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return scrub_all(str(value))
