"""From what the user asked to be checked to the effective job."""

from __future__ import annotations

import difflib
import os
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from verl_doctor.errors import BadInput
from verl_doctor.job.command import parse_command
from verl_doctor.job.composition import (
    Cannot,
    Composed,
    FolderSource,
    PrimaryNotFound,
    compose,
    corrections,
    hydra_globals,
    overlay,
)
from verl_doctor.job.config_file import ConfigFile, guess_entry, read_config_file
from verl_doctor.job.folders import DiskFolder, Folder
from verl_doctor.job.knowledge import ENTRY_POINTS, tracking_defaults
from verl_doctor.job.launch import Launch
from verl_doctor.job.model import UNKNOWN, ConfigProblem, Job, Request, Setting, Source
from verl_doctor.job.overrides import Given, parse_override, refuse_excess, split_hydra_arguments
from verl_doctor.job.provenance import Provenance
from verl_doctor.job.refusal import Refusal
from verl_doctor.job.values import Value, flatten, protected, safe_resolvers
from verl_doctor.job.verl_source import CONFIG_FOLDER, EntryConfig, find_entry, find_verl, module_of, trainer_kind
from verl_doctor.secrets import scrub


def resolve_job(request: Request) -> Job:
    """The job that a launch command, overrides or a configuration file stand for.

    Raises BadInput for input that cannot be read, and NotAVerlLaunch (verl_doctor.job.command) for a command that starts
    something else.
    """
    refuse_excess([*request.command, *request.overrides])
    return _Resolver(request).job()


class _Resolver:
    """The steps of resolving one request, in the order in which they need each other."""

    def __init__(self, request: Request) -> None:
        self.request = request
        base = os.path.abspath(request.directory or os.getcwd())
        self.launch = parse_command(request.command, base) if request.command else Launch()
        self.directory = os.path.normpath(os.path.join(base, self.launch.directory))
        self.file = read_config_file(request.config_file, self.directory) if request.config_file else None
        self.arguments = split_hydra_arguments(self.launch.arguments)
        extra = split_hydra_arguments(request.overrides)
        self.arguments.overrides += extra.overrides
        self.problems = [*self.arguments.problems, *extra.problems]
        self.given: list[Given] = []
        self.refusals: list[Refusal] = []
        for argument in self.arguments.overrides:
            parsed = parse_override(argument)
            (self.refusals if isinstance(parsed, Refusal) else self.given).append(parsed)  # type: ignore[arg-type]
        self.entry = self._entry()
        self.directories = self._directories()
        self.found = find_verl(request.verl_path, request.verl_version, self._code_directory(), self.launch.python)
        self.unlocated = False

    def job(self) -> Job:
        composed, config_name, exact = self._configuration()
        composed.refusals = [*self.refusals, *composed.refusals]
        provenance = Provenance(composed, self.found.verl)
        if self.file is not None and not self.file.is_primary:
            provenance.add_file(self.file.document, self.file.shown)
        settings, faults = self._settings(composed, provenance)
        self.problems += [refusal.problem(corrected) for refusal, corrected in corrections(composed)]
        if exact:
            self.problems += faults
        return Job(
            entry=self.entry,
            kind=trainer_kind(self.entry),
            verl=self.found.verl,
            command=[scrub(argument.text.replace(UNKNOWN, "<unknown>")) for argument in self.request.command],
            launchers=self.launch.launchers,
            directory=self.directory,
            config_name=config_name,
            exact=exact,
            settings=settings,
            appended=composed.appended,
            shadowed=[_setting(earlier) for earlier, _ in composed.replaced],
            problems=self.problems,
            name=self.request.name,
        )

    def _entry(self) -> str:
        if self.launch.entry:
            return self.launch.entry if self.launch.entry.endswith(".py") else module_of(self.launch.entry)
        keys = {given.key for given in self.given}
        if self.file is not None:
            keys |= {".".join(path) for path, _ in self.file.document.leaf_lines()}
        return (self.file.entry if self.file else "") or guess_entry(keys)

    def _code_directory(self) -> str:
        """Where the job's Python starts: the folder that `ray job submit` uploads, else where the command runs."""
        working_dir = self.launch.working_dir
        folder = os.path.join(self.directory, working_dir) if working_dir and "://" not in working_dir else self.directory
        return folder if os.path.isdir(folder) else self.directory

    def _directories(self) -> list[str]:
        code = self._code_directory()
        python_path = self.request.environment.get("PYTHONPATH")
        paths = str(python_path.value).split(":") if python_path and not python_path.unknown else []
        below = [os.path.join(self.directory, path) for path in paths if path]
        return list(dict.fromkeys([code, self.directory, *below]))

    def _configuration(self) -> tuple[Composed, str, bool]:
        """The composed configuration, its name, and whether it is certainly the job's."""
        if self.file is not None:
            return self._from_file(self.file)
        entry = find_entry(self.entry, self.found.root, self.directories)
        name = self.request.config_name or self.arguments.config_name or (entry.config_name if entry else None) or ""
        main = self._main_folder(entry)
        if main is None or not name:
            return self._approximation(name)
        return self._composed(name, main, None)

    def _from_file(self, file: ConfigFile) -> tuple[Composed, str, bool]:
        name = os.path.splitext(os.path.basename(file.path))[0]
        if file.is_primary:
            return self._composed(name, DiskFolder(os.path.dirname(file.path), self.directory), None, beside_verl=True)
        with hydra_globals():
            config = _as_config(file)
        if file.is_full:
            composed = overlay(Composed(config), self.given, multirun=self.arguments.multirun)
            return composed, file.config_name or name, True
        entry = find_entry(self.entry, self.found.root, self.directories)
        if entry is None or entry.config_path is None or entry.config_name is None:
            return self._approximation("", config)
        return self._composed(entry.config_name, entry.folder.join(entry.config_path), config)

    def _composed(
        self, name: str, main: Folder, laid_over: DictConfig | None, *, beside_verl: bool = False
    ) -> tuple[Composed, str, bool]:
        folders = [self._source("main", main)]
        folders += [source for source in (self._config_dir(), self._verl_folder() if beside_verl else None) if source]
        try:
            composed = compose(
                name,
                folders,
                self.given,
                locate=self._locate,
                resolvers=safe_resolvers(self.request.environment),
                multirun=self.arguments.multirun,
                laid_over=laid_over,
            )
        except PrimaryNotFound as missing:
            self._primary_not_found(missing)
        except Cannot as refused:
            if not self.unlocated:
                self.problems.append(self._files_refused(name, str(refused)))
        else:
            if self.unlocated:  # a package that only the job's environment has may bring any option and any key
                return overlay(composed, self.given, multirun=self.arguments.multirun), name, False
            return composed, name, composed.complete
        return self._approximation(name, laid_over)

    def _approximation(self, name: str, laid_over: DictConfig | None = None) -> tuple[Composed, str, bool]:
        """Verl's own defaults with the overrides set on them, where the job's configuration cannot be composed."""
        with hydra_globals():
            config = self._defaults(name)
            if laid_over is not None:
                merged = OmegaConf.merge(config, laid_over)
                assert isinstance(merged, DictConfig)
                config = merged
        return overlay(Composed(config), self.given, multirun=self.arguments.multirun), name, False

    def _defaults(self, name: str) -> DictConfig:
        point = ENTRY_POINTS.get(self.entry)
        name = point.config_name if point else name
        config = OmegaConf.create({})
        for key, value in tracking_defaults(name, self.found.verl.release).items():
            OmegaConf.update(config, key, value, force_add=True)
        return config

    def _source(self, provider: str, folder: Folder) -> FolderSource:
        return FolderSource(provider, folder, is_user=not self._is_verls(folder))

    def _is_verls(self, folder: Folder) -> bool:
        root = self.found.root
        if not isinstance(folder, DiskFolder) or not isinstance(root, DiskFolder):
            return not isinstance(folder, DiskFolder)
        return os.path.realpath(folder.path).startswith(os.path.realpath(os.path.join(root.path, "verl")) + os.sep)

    def _main_folder(self, entry: EntryConfig | None) -> Folder | None:
        """The folder of the primary configuration, as hydra.main finds it: absolute, or relative to the module's own folder."""
        path = self.request.config_path or self.arguments.config_path
        if path is None or path == "":
            return entry.folder.join(entry.config_path) if entry and entry.config_path is not None else None
        if path.startswith("pkg://"):
            source = self._locate(path)
            return source.folder if source else None
        if os.path.isabs(path):
            folder: Folder = DiskFolder(path, self.directory)
        elif self.request.config_path and os.path.isdir(os.path.join(self.directory, path)):
            folder = DiskFolder(os.path.join(self.directory, path), self.directory)
        elif entry is not None:
            folder = entry.folder.join(path)
        else:
            return None
        if not folder.is_folder(""):
            reason = (
                f"there is no folder '{folder.shown('')}'; --config-path is absolute, or relative to the folder of the module"
            )
            self.problems.append(self._config_problem("config_path", f"--config-path={path}", reason))
            return None
        return folder

    def _config_dir(self) -> FolderSource | None:
        path = self.request.config_dir or self.arguments.config_dir
        if not path:
            return None
        folder = DiskFolder(os.path.join(self.directory, path), self.directory)
        if folder.is_folder(""):
            return self._source("command-line", folder)
        self.problems.append(self._config_problem("config_dir", f"--config-dir={path}", f"there is no folder '{path}'"))
        return None

    def _verl_folder(self) -> FolderSource | None:
        return self._source("verl", self.found.root.join(CONFIG_FOLDER)) if self.found.root else None

    def _locate(self, path: str) -> FolderSource | None:
        """The folder of an entry of hydra.searchpath; verl's own packages and relative folders are those of the verl found."""
        scheme, _, place = path.rpartition("://")
        if scheme == "pkg":
            place = place.replace(".", "/")
        if scheme not in {"", "file", "pkg"}:
            self.unlocated = True
            return None
        candidates: list[Folder] = [DiskFolder(os.path.join(base, place), self.directory) for base in self.directories]
        if self.found.root is not None and not os.path.isabs(place):
            candidates.append(self.found.root.join(place))
        found = next((folder for folder in candidates if folder.is_folder("")), None)
        if found is None:
            self.unlocated = True
            return None
        return self._source("hydra.searchpath", found)

    def _config_problem(self, option: str, override: str, reason: str, corrected: str | None = None) -> ConfigProblem:
        argument = self.arguments.given.get(option)
        source = Source("override", "override", argument.location) if argument else Source("option", "option")
        return ConfigProblem(
            kind="config-not-found",
            override=scrub(override),
            key="--" + option.replace("_", "-"),
            reason=scrub(reason),
            source=source,
            corrected=scrub(corrected) if corrected else None,
        )

    def _primary_not_found(self, missing: PrimaryNotFound) -> None:
        names = [name for name in missing.near if not name.startswith("_")]
        near = difflib.get_close_matches(missing.name.removesuffix(".yaml"), names, n=1, cutoff=0.4)
        reason = str(missing) + (f"; the folder has {', '.join(names)}" if names else "")
        corrected = f"--config-name={near[0]}" if near else None
        self.problems.append(self._config_problem("config_name", f"--config-name={missing.name}", reason, corrected))

    def _files_refused(self, name: str, reason: str) -> ConfigProblem:
        argument = self.arguments.given.get("config_name")
        return ConfigProblem(
            kind="missing-group" if "Could not" in reason else "other",
            override=f"--config-name={name}",
            key="--config-name",
            reason=scrub(reason),
            source=Source("override", "override", argument.location)
            if argument
            else Source("config-file", "configuration file"),
        )

    def _settings(self, composed: Composed, provenance: Provenance) -> tuple[dict[str, Setting], list[ConfigProblem]]:
        reasons = {given.key: given.argument.unknown for given in self.given if given.argument.unknown}
        reasons |= {f"${name}": variable.unknown for name, variable in self.request.environment.items() if variable.unknown}
        with hydra_globals(safe_resolvers(self.request.environment)):
            hydra = composed.config._content.pop("hydra", None)  # type: ignore[union-attr]
            values = flatten(composed.config, reasons)
        if hydra is not None:
            composed.config._content["hydra"] = hydra  # type: ignore[index]
        settings = {}
        faults = []
        for key, value in values.items():
            source = provenance.source(key)
            settings[key] = Setting(key, protected(key, value.value), source, scrub(value.unknown))
            if value.fault and provenance.is_users(key) and self.entry.startswith("verl."):
                faults.append(_fault(key, value, source, provenance.owner(key)))
        for key in provenance.users_hydra_keys():
            settings[key] = _setting(composed.owners[key])
        for given in composed.swept:
            settings[given.key] = Setting(given.key, None, given.source, "--multirun gives it several values")
        return settings, faults


def _as_config(file: ConfigFile) -> DictConfig:
    try:
        config = OmegaConf.create(file.data)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"{file.shown}: OmegaConf refuses it: {reason}; correct this value") from error
    assert isinstance(config, DictConfig)
    return config


def _setting(given: Given) -> Setting:
    """What an override by itself sets."""
    value: Any = None if given.override.is_delete() or given.argument.unknown else given.override.value()
    return Setting(given.key, protected(given.key, value), given.source, given.argument.unknown)


def _fault(key: str, value: Value, source: Source, owner: Given | None) -> ConfigProblem:
    override = owner.argument.text if owner else key
    return ConfigProblem(kind="interpolation", override=scrub(override), key=key, reason=scrub(value.fault), source=source)
