"""Where the process that logs starts, which decides what a relative path means to it."""

from __future__ import annotations

import os

from verl_doctor.job import local_ray
from verl_doctor.job.command import Launch, parse_command
from verl_doctor.job.environment import cluster_address, launching_environment
from verl_doctor.job.model import Job, Request
from verl_doctor.job.variables import brief
from verl_doctor.registry import Undetermined


def logging_directory(request: Request, job: Job) -> str:
    """The working directory of the process that logs (ray 2.60.0, measured: an actor starts in the folder of its raylet).

    Raises Undetermined when the process runs elsewhere, or where Ray unpacks a working_dir.
    """
    launch = parse_command(request.command, request.directory) if request.command else Launch()
    if launch.other_machine or launch.submits_to_cluster:
        raise Undetermined(launch.other_machine or "the job is submitted to a Ray cluster")
    if not job.uses_ray:
        return job.directory
    if job.get("ray_kwargs.ray_init.runtime_env.working_dir") is not None:
        raise Undetermined("Ray unpacks the working_dir of the runtime_env into a folder of its own")
    address = cluster_address(launching_environment(request, launch), launch, job)
    if not address:
        return job.directory
    raylet = local_ray.find_raylet(address)
    if raylet is None or not raylet.is_head:
        raise Undetermined(f"the job joins the Ray cluster at {brief(address)}, and its nodes have folders of their own")
    try:
        return os.readlink(f"{local_ray.PROC}/{raylet.pid}/cwd")
    except OSError as error:
        raise Undetermined(f"the folder of the Ray node is not known: {error.strerror}") from None
