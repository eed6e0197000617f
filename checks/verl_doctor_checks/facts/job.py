"""The effective job: what is launched, its environment, and what is installed beside it."""

from verl_doctor.api import Environment, Job, Packages, Request, fact


def _any_request(_plain: object) -> Request:
    return Request()


@fact(example=_any_request)
def request() -> Request:
    """What the user asked for; always given by the command."""
    raise NotImplementedError


@fact(timeout=30, example=Job.example)
def job(request: Request) -> Job:
    """The composed configuration of the job."""
    from verl_doctor.job.resolve import resolve_job

    return resolve_job(request)


@fact(example=Environment.example)
def environment(request: Request, job: Job) -> Environment:
    """The environment of the process that logs."""
    from verl_doctor.job.environment import effective_environment

    return effective_environment(request, job)


@fact(example=Packages.example)
def packages(request: Request, job: Job) -> Packages:
    """The distributions installed for the job's Python."""
    from verl_doctor.job.packages import installed_packages

    return installed_packages(request, job)
