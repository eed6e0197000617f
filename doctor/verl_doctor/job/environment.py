"""The environment of the process that logs, and where each variable of it was set.

The loggers of the SFT trainers live in the launched process. Those of the others live in a Ray actor, which inherits from the
raylet of its node and not from the launching shell, unless ray.init() starts that raylet itself (ray 2.60.0, measured).
"""

from __future__ import annotations

from verl_doctor.job.command import Launch, parse_command
from verl_doctor.job.local_ray import Raylet, current_cluster, find_raylet
from verl_doctor.job.model import Environment, Job, Request, Setting, Variable
from verl_doctor.job.runtime_env import node_variable
from verl_doctor.job.variables import brief, read_assignment, read_env_file, shell_environment
from verl_doctor.registry import Undetermined
from verl_doctor.secrets import Secret

__all__ = [
    "cluster_address",
    "effective_environment",
    "launching_environment",
    "read_assignment",
    "read_env_file",
    "shell_environment",
]

_RAY_INIT = "ray_kwargs.ray_init"

Variables = dict[str, Variable]


def effective_environment(request: Request, job: Job) -> Environment:
    """What the process that logs sees. Looks at the Ray node of this machine when the job would join one.

    Raises NotAVerlLaunch and BadInput as `parse_command` does.
    """
    launch = parse_command(request.command, request.directory) if request.command else Launch()
    launching = launching_environment(request, launch)
    given = launch.runtime_env | _configured(job)
    if launch.submits_to_cluster:
        return _submitted(launching, given, launch, job)
    if not job.uses_ray:
        return Environment(variables=launching, unseen=launch.adds_environment or request.unseen)
    try:
        address = cluster_address(launching, launch, job)
    except Undetermined as error:
        return _on_cluster(launching, given, str(error))
    if address:
        return _joined(launching, given, address, launch, job)
    unseen = launch.adds_environment or request.unseen
    if launch.other_machine:
        unseen = unseen or f"{launch.other_machine}, and a Ray node that runs there already decides"
    return Environment(variables=launching | given, unseen=unseen)


def launching_environment(request: Request, launch: Launch) -> Variables:
    """The variables of the process that the command starts: those of the shell, and what the command adds and removes."""
    shell = {} if launch.drops_environment else request.environment
    kept = {name: variable for name, variable in shell.items() if name not in launch.removed}
    return kept | {variable.name: variable for variable in launch.assignments}


def cluster_address(launching: Variables, launch: Launch, job: Job) -> str:
    """The address of the Ray cluster that the job joins, empty when ray.init() starts one of its own.

    Raises Undetermined when it depends on something that is not known.
    """
    address = job.get(f"{_RAY_INIT}.address")
    if address not in (None, "auto"):
        return "" if address == "local" else str(address)
    variable = launching.get("RAY_ADDRESS")
    if variable is not None and variable.unknown:
        raise Undetermined(f"RAY_ADDRESS is not known: {variable.unknown}")
    named = str(variable.value) if variable is not None else ""
    if named not in ("", "auto"):
        return "" if named == "local" else named
    found = "" if launch.other_machine else _current_cluster(launching, job)
    return found or ("auto" if "auto" in (address, named) else "")


def _current_cluster(launching: Variables, job: Job) -> str:
    """The cluster that runs on this machine; a file that a dead one left behind does not count."""
    known = {name: str(variable.value) for name, variable in launching.items() if not variable.unknown}
    temp_dir = job.get(f"{_RAY_INIT}._temp_dir")
    address = current_cluster(known, temp_dir if isinstance(temp_dir, str) else "")
    return address if address and find_raylet(address) else ""


def _configured(job: Job) -> Variables:
    """The variables that the configuration passes to ray.init() (verl 0.6 and later merge them into its runtime_env)."""
    prefix = f"{_RAY_INIT}.runtime_env.env_vars"
    settings = job.under(prefix)
    whole = job.settings.get(prefix)
    if whole is not None and isinstance(whole.value, dict):
        settings = {
            str(name): Setting(f"{prefix}.{name}", value, whole.source, whole.unknown) for name, value in whole.value.items()
        } | settings
    return {name: _from_setting(name, setting) for name, setting in settings.items()}


def _from_setting(name: str, setting: Setting) -> Variable:
    value = setting.value.reveal() if isinstance(setting.value, Secret) else setting.value
    if value is None and isinstance(setting.value, Secret):
        return Variable(name, setting.value, setting.source, setting.unknown)
    variable = node_variable(name, "" if value is None else str(value), setting.source)
    return Variable(name, variable.value, setting.source, setting.unknown or variable.unknown)


def _submitted(launching: Variables, given: Variables, launch: Launch, job: Job) -> Environment:
    if not job.uses_ray:
        given = given | {variable.name: variable for variable in launch.entrypoint_assignments}
    decides = "the job is submitted to a Ray cluster, and the shell in which `ray start` ran there decides"
    return _on_cluster(launching, given, launch.adds_environment or decides)


def _joined(launching: Variables, given: Variables, address: str, launch: Launch, job: Job) -> Environment:
    raylet = None if launch.other_machine else find_raylet(address)
    if raylet is None:
        reason = f"the job joins the Ray cluster at {brief(address)}, and the shell in which `ray start` ran there decides"
        return _on_cluster(launching, given, reason)
    if raylet.environment is None:
        reason = "the job joins the Ray node on this machine, whose environment this user may not read"
        return _on_cluster(launching, given, reason)
    return _on_node(launching, raylet.environment | given, _other_nodes(raylet, job))


def _other_nodes(raylet: Raylet, job: Job) -> str:
    """Why the process that logs may run on another node, empty when this one is certain.

    An idle cluster places it on the head (ray 2.60.0, measured); with one node there is no other.
    """
    nnodes = job.settings.get("trainer.nnodes")
    if not raylet.is_head:
        return "the head of the Ray cluster is another machine, where the process that logs usually runs"
    if nnodes is not None and (nnodes.unknown or nnodes.value != 1):
        return "the process that logs may run on another node of the Ray cluster"
    return ""


def _on_node(launching: Variables, variables: Variables, unseen: str) -> Environment:
    left_behind = {
        name: variable
        for name, variable in launching.items()
        if name not in variables or variables[name].value != variable.value
    }
    return Environment(variables=variables, left_behind=left_behind, unseen=unseen)


def _on_cluster(launching: Variables, given: Variables, reason: str) -> Environment:
    left_behind = {name: variable for name, variable in launching.items() if name not in given}
    return Environment(variables=given, left_behind=left_behind, unseen=reason)
