"""From what the user asked to be checked to the effective job."""

from __future__ import annotations

import difflib
import os

from omegaconf import DictConfig, OmegaConf

from verl_doctor.job.advice import MAX_ADVISED
from verl_doctor.job.command import parse_command
from verl_doctor.job.composition import Cannot, Composed, PrimaryNotFound, compose, corrections, overlay
from verl_doctor.job.config_file import ConfigFile, guess_entry, read_config_file
from verl_doctor.job.config_search import ConfigSearch, FolderMissing
from verl_doctor.job.folders import DiskFolder, Folder
from verl_doctor.job.hydra_files import FolderSource, as_config, hydra_globals
from verl_doctor.job.knowledge import ENTRY_POINTS, tracking_defaults
from verl_doctor.job.launch import Launch
from verl_doctor.job.model import UNKNOWN, ConfigProblem, Job, ProblemKind, Request, Setting, Source
from verl_doctor.job.overrides import Given, override_source, parse_override, refuse_excess, split_hydra_arguments
from verl_doctor.job.provenance import Provenance
from verl_doctor.job.refusal import Refusal, shown
from verl_doctor.job.values import Value, flatten, protected, safe_resolvers
from verl_doctor.job.verl_source import find_entry, find_verl, module_of, trainer_kind
from verl_doctor.secrets import scrub


def resolve_job(request: Request) -> Job:
    """The job that a launch command, overrides or a configuration file stand for.

    Raises BadInput for input that cannot be read, and NotAVerlLaunch (verl_doctor.job.launch) for a command that starts
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
        added = split_hydra_arguments(request.overrides)
        self.unknown_arguments = self.arguments.unknown + added.unknown
        self.problems = self.arguments.problems + added.problems
        self.given: list[Given] = []
        self.refusals: list[Refusal] = []
        for argument in self.arguments.overrides + added.overrides:
            parsed = parse_override(argument, advise=len(self.refusals) < MAX_ADVISED)
            if isinstance(parsed, Given):
                self.given.append(parsed)
            else:
                self.refusals.append(parsed)
        self.entry = self._entry()
        code = self._code_directory()
        self.found = find_verl(request.verl_path, request.verl_version, code, self.launch.python)
        self.search = ConfigSearch(self.found, self.directory, self._module_directories(code))
        self.entry_config = find_entry(self.entry, self.found.root, self.search.directories)
        self.search.blind = any(given.key == "hydra.searchpath" and given.unknown for given in self.given)

    def job(self) -> Job:
        """The resolved job."""
        composed, config_name, exact = self._configuration()
        composed.refusals = [*self.refusals, *composed.refusals]
        provenance = Provenance(composed, self.found.verl)
        if self.file is not None and not self.file.is_primary:
            provenance.add_file(self.file.document, self.file.shown)
        settings, faults = self._settings(composed, provenance)
        if self._is_hydras():
            self.problems += [refusal.problem(corrected) for refusal, corrected in corrections(composed)]
        else:
            self.problems = []
        if exact and self.entry.startswith("verl."):  # a recipe may register resolvers of its own
            self.problems += faults
        return Job(
            entry=self.entry,
            kind=trainer_kind(self.entry),
            verl=self.found.verl,
            command=[shown(argument.text) for argument in self.request.command],
            launchers=self.launch.launchers,
            directory=(self.file.directory if self.file else "") or self.directory,
            config_name=shown(config_name),
            exact=exact,
            settings=settings,
            appended=composed.appended,
            unknown_arguments=self.unknown_arguments,
            shadowed=[_setting(earlier) for earlier, _ in composed.replaced],
            problems=self.problems,
            name=self.request.name,
        )

    def _is_hydras(self) -> bool:
        """Whether Hydra reads the command line; a program of the user's own that cannot be seen may read it in its own way."""
        return self.entry_config is not None or module_of(self.entry).startswith(("verl.", "recipe."))

    def _entry(self) -> str:
        if self.launch.entry:
            return self.launch.entry if self.launch.entry.endswith(".py") else module_of(self.launch.entry)
        keys = {given.key for given in self.given}
        if self.file is None:
            return guess_entry(keys)
        return self.file.entry or guess_entry(keys | {".".join(path) for path, _ in self.file.document.leaf_lines()})

    def _code_directory(self) -> str:
        """Where the job's Python starts: the folder that `ray job submit` uploads, else where the command runs."""
        working_dir = self.launch.working_dir
        folder = os.path.join(self.directory, working_dir) if working_dir and "://" not in working_dir else self.directory
        return os.path.normpath(folder) if os.path.isdir(folder) else self.directory

    def _module_directories(self, code: str) -> list[str]:
        python_path = self.request.environment.get("PYTHONPATH")
        paths = str(python_path.value).split(":") if python_path and not python_path.unknown else []
        below = [os.path.join(self.directory, path) for path in paths if path]
        return list(dict.fromkeys([code, self.directory, *below]))

    def _configuration(self) -> tuple[Composed, str, bool]:
        """The composed configuration, its name, and whether it is certainly the job's."""
        if self.file is not None:
            return self._from_file(self.file)
        entry = self.entry_config
        name = self.request.config_name or self.arguments.config_name or (entry.config_name if entry else None) or ""
        path = self.request.config_path or self.arguments.config_path
        try:
            main = self.search.main(entry, path, from_here=bool(self.request.config_path))
        except FolderMissing as missing:
            self._report("config_path", path or "", str(missing))
            main = None
        if main is None or not name or UNKNOWN in name:
            return self._approximation(name)
        return self._composed(name, main)

    def _from_file(self, file: ConfigFile) -> tuple[Composed, str, bool]:
        name = os.path.splitext(os.path.basename(file.path))[0]
        if file.is_primary:
            return self._composed(name, DiskFolder(os.path.dirname(file.path), self.directory), beside_verl=True)
        with hydra_globals():
            config = as_config(file.document, file.shown)
        if file.is_full:
            return overlay(Composed(config), self.given, multirun=self.arguments.multirun), file.config_name or name, True
        entry = self.entry_config
        main = self.search.main(entry, None, from_here=False)
        if entry is None or entry.config_name is None or main is None:
            return self._approximation("", config)
        return self._composed(entry.config_name, main, config)

    def _composed(
        self, name: str, main: Folder, laid_over: DictConfig | None = None, *, beside_verl: bool = False
    ) -> tuple[Composed, str, bool]:
        try:
            composed = compose(
                name,
                [self.search.source("main", main), *self._additional(), *(self.search.verls_own() if beside_verl else [])],
                self.given,
                locate=self.search.locate,
                resolvers=safe_resolvers(self.request.environment),
                multirun=self.arguments.multirun,
                laid_over=laid_over,
            )
        except PrimaryNotFound as missing:
            self._report_primary(missing)
        except Cannot as refused:
            if not self.search.blind:
                self._report(
                    "config_name", name, str(refused), kind="missing-group" if "Could not" in str(refused) else "other"
                )
        else:
            if self.search.blind:
                return overlay(composed, self.given, multirun=self.arguments.multirun), name, False
            return composed, name, composed.complete
        return self._approximation(name, laid_over)

    def _additional(self) -> list[FolderSource]:
        path = self.request.config_dir or self.arguments.config_dir
        try:
            return self.search.additional(path)
        except FolderMissing as missing:
            self._report("config_dir", path or "", str(missing))
            return []

    def _approximation(self, name: str, laid_over: DictConfig | None = None) -> tuple[Composed, str, bool]:
        """What is known of verl's defaults with the overrides set on them, where the configuration cannot be composed."""
        point = ENTRY_POINTS.get(module_of(self.entry))
        defaults = tracking_defaults(point.config_name if point else name, self.found.verl.release)
        with hydra_globals():
            config = OmegaConf.create({})
            for key, value in defaults.items():
                OmegaConf.update(config, key, value, force_add=True)
            if laid_over is not None:
                config.merge_with(laid_over)
        return overlay(Composed(config), self.given, multirun=self.arguments.multirun), name, False

    def _report_primary(self, missing: PrimaryNotFound) -> None:
        near = difflib.get_close_matches(missing.name.removesuffix(".yaml"), missing.near, n=1, cutoff=0.4)
        reason = str(missing) + (f"; the folder has {', '.join(missing.near)}" if missing.near else "")
        self._report("config_name", missing.name, reason, corrected=f"--config-name={near[0]}" if near else None)

    def _report(
        self, option: str, value: str, reason: str, *, kind: ProblemKind = "config-not-found", corrected: str | None = None
    ) -> None:
        """A problem with what one of Hydra's options names."""
        argument = self.arguments.given.get(option)
        name = "--" + option.replace("_", "-")
        self.problems.append(
            ConfigProblem(
                kind=kind,
                override=scrub(f"{name}={value}"),
                key=name,
                reason=scrub(reason),
                source=override_source(argument) if argument else Source("option", "option"),
                corrected=scrub(corrected) if corrected else None,
            )
        )

    def _settings(self, composed: Composed, provenance: Provenance) -> tuple[dict[str, Setting], list[ConfigProblem]]:
        """Every leaf as a setting, and what is wrong with the interpolations that the user wrote."""
        reasons = {given.key: given.unknown for given in self.given if given.unknown}
        reasons |= {f"${name}": variable.unknown for name, variable in self.request.environment.items() if variable.unknown}
        with hydra_globals(safe_resolvers(self.request.environment)):
            values = flatten(composed.config, reasons, skip=("hydra",))
        settings: dict[str, Setting] = {}
        faults: list[ConfigProblem] = []
        for key, value in values.items():
            source = provenance.source(key)
            settings[key] = Setting(key, protected(key, value.value), source, scrub(value.unknown))
            if value.fault and provenance.is_users(key):
                faults.append(_fault(key, value, source, provenance.owner(key)))
        for key in provenance.users_hydra_keys():
            settings[key] = _setting(composed.owners[key])
        for given in composed.swept:
            settings[given.key] = Setting(given.key, None, given.source, "--multirun gives it several values")
        return settings, faults


def _setting(given: Given) -> Setting:
    """What an override by itself sets."""
    value = None if given.override.is_delete() or given.unknown else given.override.value()
    return Setting(given.key, protected(given.key, value), given.source, given.unknown)


def _fault(key: str, value: Value, source: Source, owner: Given | None) -> ConfigProblem:
    override = owner.text if owner else key
    return ConfigProblem(kind="interpolation", override=shown(override), key=key, reason=shown(value.fault), source=source)
