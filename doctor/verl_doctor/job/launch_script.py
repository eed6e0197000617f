"""The launches of a script as requests, each named by its line."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from verl_doctor.job.command import NotAVerlLaunch, parse_command
from verl_doctor.job.model import Request
from verl_doctor.job.variables import brief


def requests_of_script(path: str, arguments: Sequence[str], base: Request) -> list[Request]:
    """One request for each launch of verl in the script, started with `arguments` in the environment and directory of `base`.

    Commands that only look like a launch, such as a tool of verl's, are left out. Raises BadInput when the script cannot be
    read, and NotAVerlLaunch when it starts no verl.
    """
    from verl_doctor.job.shell import read_script

    script = read_script(path, list(arguments), base.environment, base.directory)
    requests = [
        msgspec.structs.replace(
            base,
            command=launch.arguments,
            environment=launch.environment,
            directory=launch.directory or base.directory,
            name=f"{os.path.basename(path)}:{launch.line}",
            unseen=launch.unseen,
            condition=launch.condition,
        )
        for launch in script.launches
    ]
    launches, refused = _sort_out(requests)
    if not launches:
        raise refused or NotAVerlLaunch(f"the script {brief(path)} starts no verl that can be seen without running it")
    # What is said of the script is said once, with its first launch.
    return [msgspec.structs.replace(launches[0], notes=script.notes), *launches[1:]]


def _sort_out(requests: list[Request]) -> tuple[list[Request], NotAVerlLaunch | None]:
    refusals = [_refusal(request) for request in requests]
    launches = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
    return launches, next((refusal for refusal in refusals if refusal), None)


def _refusal(request: Request) -> NotAVerlLaunch | None:
    try:
        parse_command(request.command, request.directory)
    except NotAVerlLaunch as error:
        return error
    return None
