"""Space and rights where the job writes, whatever writes there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from verl_doctor.api import Environment, Finding, Job, Setting, Severity, Variable, check, finding
from verl_doctor_checks.facts.directories import OWNED_SETTINGS, Directory, named_by

MIB = 1024**2
LITTLE_BYTES = 1024 * MIB
LITTLE_BYTES_OF_CHECKPOINTS = 5 * LITTLE_BYTES
NO_BYTES = 50 * MIB
LITTLE_INODES = 1000
CHECKPOINTS = "trainer.default_local_dir"


def _at(name: str, job: Job, environment: Environment) -> Variable | Setting | None:
    return job.settings.get(name) or environment.given(name)


def _by_disk(directories: Iterable[Directory]) -> list[list[Directory]]:
    """Folders with the same kind of file system and the same space left are on one disk, for what is said here."""
    disks: dict[tuple[str, int | None, int | None], list[Directory]] = {}
    for directory in directories:
        place = directory.place
        disks.setdefault((place.file_system, place.free_bytes, place.free_inodes), []).append(directory)
    return list(disks.values())


def _is_short(directory: Directory) -> bool:
    limit = LITTLE_BYTES_OF_CHECKPOINTS if directory.named_by == CHECKPOINTS else LITTLE_BYTES
    return directory.place.free_bytes is not None and directory.place.free_bytes < limit


@check(
    "DISK001",
    "disk-almost-full",
    tags={"logger", "disk", "offline"},
    severity=Severity.WARNING,
    good=[
        {"directories": []},
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "free_bytes": 2 * LITTLE_BYTES}}]},
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w"}}]},
        {"directories": [{"named_by": "WANDB_DIR", "unknown": "the job runs elsewhere"}]},
    ],
    bad=[
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "free_bytes": 900 * MIB}}]},
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "free_bytes": 0}}]},
        {"directories": [{"named_by": CHECKPOINTS, "place": {"path": "/w", "free_bytes": 4 * LITTLE_BYTES}}]},
    ],
)
def disk_almost_full(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """Hardly any space is left where the job writes.

    A tracker that cannot write loses data or stops the training, usually hours after the start; checkpoints need gigabytes
    each. Reported below 1 GiB, and below 5 GiB for checkpoints. Quotas of a user are not seen here, unless the file system
    counts them as its size.

    Fix: free space, or name another folder.

    See: https://github.com/wandb/wandb/issues/7066
    """
    for disk in _by_disk(directory for directory in directories if _is_short(directory)):
        first = disk[0]
        free = first.place.free_bytes or 0
        yield finding(
            "{free} MiB are left on the disk of {path} ({names})",
            at=_at(first.named_by, job, environment),
            target=first.named_by,
            fix="Free space, or name another folder",
            severity=Severity.ERROR if free < NO_BYTES else None,
            free=free // MIB,
            path=first.place.path,
            names=", ".join(directory.named_by for directory in disk),
        )


@check(
    "DISK002",
    "disk-inodes-almost-gone",
    tags={"logger", "disk", "offline"},
    severity=Severity.WARNING,
    good=[
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "free_inodes": 100_000}}]},
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w"}}]},
    ],
    bad=[
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "free_inodes": 12}}]},
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "free_inodes": 0}}]},
    ],
)
def disk_inodes_almost_gone(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """Hardly any more files can be made where the job writes, although there may be space.

    Trackers make many small files, and a file system, or the quota on it, has a number of files. The error then is "No space
    left on device" while `df` shows free space; `df -i` shows the cause.

    Fix: remove old run folders, or name another folder.

    See: https://github.com/wandb/wandb/issues/7066
    """
    few = [each for each in directories if each.place.free_inodes is not None and each.place.free_inodes < LITTLE_INODES]
    for disk in _by_disk(few):
        first = disk[0]
        yield finding(
            "{count} more files can be made on the disk of {path} ({names})",
            at=_at(first.named_by, job, environment),
            target=first.named_by,
            fix="Remove old run folders, or name another folder",
            severity=Severity.ERROR if first.place.free_inodes == 0 else None,
            count=first.place.free_inodes,
            path=first.place.path,
            names=", ".join(directory.named_by for directory in disk),
        )


@check(
    "DISK003",
    "disk-folder-not-writable",
    tags={"logger", "disk", "generations", "offline"},
    good=[
        {"directories": [{"named_by": CHECKPOINTS, "place": {"path": "/ckpt"}}]},
        {"directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w", "writable": False}}]},
        {"directories": [{"named_by": "trainer.rollout_data_dir", "place": {"path": "/d"}}]},
    ],
    bad=[
        {"directories": [{"named_by": name, "place": {"path": "/d", "writable": False, "obstacle": "/ is read-only"}}]}
        for name in OWNED_SETTINGS
    ],
)
def disk_folder_not_writable(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """A folder for checkpoints or dumps cannot be written to.

    verl makes it when it saves for the first time, which can be hours after the start, and stops with a PermissionError or an
    OSError then.

    Fix: name a folder that the job may write to.

    See: verl 0.9.1 verl/trainer/ppo/ray_trainer.py
    """
    for name in OWNED_SETTINGS:
        folder = named_by(directories, name)
        if folder is not None and not folder.place.writable:
            yield finding(
                "{key} is {path}, which cannot be written to: {obstacle}",
                at=_at(name, job, environment),
                fix="Name a folder that the job may write to",
                key=name,
                path=folder.place.path,
                obstacle=folder.place.obstacle,
            )
