"""verl's `trackio` tracker."""

from __future__ import annotations

from collections.abc import Iterator

from verl_doctor.api import Environment, Finding, Job, Packages, Severity, check, finding
from verl_doctor_checks.facts.directories import Directory, named_by
from verl_doctor_checks.facts.files import TrackioFolder
from verl_doctor_checks.trackers import generates, logs_to, validations

NETWORK_FOLDER = {"named_by": "TRACKIO_DIR", "place": {"path": "/nfs/t", "file_system": "nfs4", "is_network": True}}


@check(
    "TRACKIO001",
    "trackio-too-old-for-generations",
    tags={"logger", "trackio", "generations"},
    good=[
        {"job": {"trainer.logger": ["trackio"], "trainer.log_val_generations": 5}, "packages": {"trackio": "0.25.0"}},
        {"job": {"trainer.logger": ["trackio"]}, "packages": {"trackio": "0.20.2"}},
        {
            "job": {"trainer.logger": ["trackio"], "trainer.log_val_generations": 5, "verl": "0.7.1"},
            "packages": {"trackio": "0.20.2"},
        },
        {"job": {"trainer.logger": ["trackio"], "trainer.log_val_generations": 5}, "packages": {"trackio": None}},
    ],
    bad=[{"job": {"trainer.logger": ["trackio"], "trainer.log_val_generations": 5}, "packages": {"trackio": "0.20.2"}}],
)
def trackio_too_old_for_generations(job: Job, packages: Packages) -> Iterator[Finding]:
    """The installed trackio has no traces, which verl needs for validation generations.

    Since 0.8.0 verl logs generations to trackio as `trackio.Trace`, which came with trackio 0.25.0. With an older one the
    training stops with an AttributeError at its first validation.

    Fix: upgrade trackio.

    See: verl 0.9.1 verl/utils/tracking.py, `log_generations_to_trackio`
         trackio CHANGELOG 0.25.0
    """
    if (
        not logs_to(job, "trackio")
        or not generates(job)
        or job.verl.release < (0, 8)
        or not job.get("trainer.log_val_generations")
    ):
        return
    release = packages.release("trackio")
    if release is not None and release < (0, 25) and validations(job) != 0:
        yield finding(
            "trackio {version} has no traces, which verl {verl} needs for generations: the first validation stops the training",
            at=job.settings.get("trainer.log_val_generations"),
            fix="Upgrade trackio to 0.25.0 or later",
            commands=["pip install 'trackio>=0.25'"],
            version=packages.version("trackio"),
            verl=job.verl.version,
        )


RESERVED_ENDINGS = ("_system", "_configs", "_traces")


@check(
    "TRACKIO002",
    "trackio-project-name",
    tags={"logger", "trackio", "names"},
    good=[
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": "my-project_1"}},
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": "项目"}},
        {"job": {"trainer.logger": ["wandb"], "trainer.project_name": "registry-a"}},
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": 7}},
    ],
    bad=[
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": "registry-a"}},
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": "chat_traces"}},
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": "my.model/v2"}},
        {"job": {"trainer.logger": ["trackio"], "trainer.project_name": "!!!"}},
    ],
)
def trackio_project_name(job: Job) -> Iterator[Finding]:
    """trackio refuses the project name, or shortens it to one that other projects have as well.

    The database is called after the letters, digits, `-` and `_` of the project name; all else is dropped, so `my.model` and
    `mymodel` share one database, and a name without any of them becomes `default`. Names that begin with `registry-` or end
    in `_system`, `_configs` or `_traces` are refused with a ValueError, which ends the job.

    Fix: use letters, digits, `-` and `_`.

    See: trackio 0.43.0 utils.py, `canonical_project_name`, and sqlite_storage.py, `validate_project_name`
    """
    name = job.get("trainer.project_name")
    if not logs_to(job, "trackio") or not isinstance(name, str) or not name.strip():
        return
    kept = "".join(character for character in name if character.isalnum() or character in "-_")
    setting = job.settings.get("trainer.project_name")
    if kept.startswith("registry-") or kept.endswith(RESERVED_ENDINGS):
        yield finding(
            'trackio refuses the project name "{name}": it is reserved, and the job stops with a ValueError',
            at=setting,
            fix="Choose a name that neither begins with registry- nor ends in _system, _configs or _traces",
            name=name,
        )
    elif kept != name:
        yield finding(
            'trackio keeps the project "{name}" in the database "{kept}", together with every project that is shortened to it',
            at=setting,
            fix="Use letters, digits, - and _ only",
            severity=Severity.INFO,
            name=name,
            kept=kept or "default",
        )


@check(
    "TRACKIO003",
    "trackio-server-without-token",
    tags={"logger", "trackio"},
    good=[
        {"job": {"trainer.logger": ["trackio"]}, "environment": {}},
        {
            "job": {"trainer.logger": ["trackio"]},
            "environment": {"TRACKIO_SERVER_URL": "http://t:7860", "TRACKIO_WRITE_TOKEN": "abcdefgh"},
        },
        {"job": {"trainer.logger": ["trackio"]}, "environment": {"TRACKIO_SERVER_URL": "http://t:7860/?write_token=abcdefgh"}},
        {
            "job": {"trainer.logger": ["trackio"]},
            "environment": {"TRACKIO_SERVER_URL": "http://t:7860", "TRACKIO_SPACE_ID": "me/space"},
        },
        {"job": {"trainer.logger": ["wandb"]}, "environment": {"TRACKIO_SERVER_URL": "t:7860"}},
        {"job": {"trainer.logger": ["trackio"]}, "environment": {"unseen": "somebody else started Ray"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["trackio"]}, "environment": {"TRACKIO_SERVER_URL": "http://t:7860"}},
        {
            "job": {"trainer.logger": ["trackio"]},
            "environment": {"TRACKIO_SERVER_URL": "t:7860", "TRACKIO_WRITE_TOKEN": "abcdefgh"},
        },
    ],
)
def trackio_server_without_token(job: Job, environment: Environment) -> Iterator[Finding]:
    """TRACKIO_SERVER_URL cannot be used as it is.

    trackio stops with a ValueError when the address does not begin with http:// or https://, and when there is no write token:
    neither as `write_token` in the address nor in TRACKIO_WRITE_TOKEN. TRACKIO_SPACE_ID takes precedence over both.

    Fix: give the full address, and the token in TRACKIO_WRITE_TOKEN.

    See: trackio 0.43.0 __init__.py, `init`
    """
    if not logs_to(job, "trackio"):
        return
    address = environment.given("TRACKIO_SERVER_URL")
    if address is None or address.unknown or not str(address.value) or environment.text("TRACKIO_SPACE_ID"):
        return
    if not str(address.value).startswith(("http://", "https://")):
        yield finding(
            'TRACKIO_SERVER_URL is "{value}": without http:// or https:// the job stops with a ValueError',
            at=address,
            fix="Give the full address",
            value=address.value,
        )
    elif "write_token=" not in str(address.value) and not environment.get("TRACKIO_WRITE_TOKEN"):
        yield finding(
            "TRACKIO_SERVER_URL is set without a write token: the job stops with a ValueError",
            at=address,
            fix="Set TRACKIO_WRITE_TOKEN in the process that logs",
        )


@check(
    "TRACKIO004",
    "trackio-folder-not-writable",
    tags={"logger", "trackio", "disk"},
    good=[
        {"job": {"trainer.logger": ["trackio"]}, "environment": {}, "trackio_folder": {"path": "/t", "writable": True}},
        {"job": {"trainer.logger": ["trackio"]}, "environment": {}, "trackio_folder": {"unknown": "a cluster"}},
        {"job": {"trainer.logger": ["wandb"]}, "environment": {}, "trackio_folder": {"path": "/t", "writable": False}},
        {
            "job": {"trainer.logger": ["trackio"]},
            "environment": {"TRACKIO_SPACE_ID": "me/space"},
            "trackio_folder": {"path": "/t", "writable": False},
        },
    ],
    bad=[{"job": {"trainer.logger": ["trackio"]}, "environment": {}, "trackio_folder": {"path": "/t", "writable": False}}],
)
def trackio_folder_not_writable(job: Job, environment: Environment, trackio_folder: TrackioFolder) -> Iterator[Finding]:
    """trackio cannot write to its folder, and loses everything without an error.

    It starts, warns once that data "could not be persisted", and the whole run is gone. The folder is TRACKIO_DIR, else
    `trackio` below HF_HOME, which is often read-only where models are shared.

    Fix: set TRACKIO_DIR to a folder that the job may write to.

    See: trackio 0.43.0 utils.py, `TRACKIO_DIR`
    """
    if not logs_to(job, "trackio") or trackio_folder.unknown or trackio_folder.writable:
        return
    if not environment.text("TRACKIO_SPACE_ID") and not environment.text("TRACKIO_SERVER_URL"):
        yield finding(
            "{path} cannot be written to: trackio starts all the same and loses the whole run",
            target="TRACKIO_DIR",
            fix="Set TRACKIO_DIR to a folder that the job may write to",
            path=trackio_folder.path,
        )


@check(
    "TRACKIO005",
    "trackio-breaks-with-huggingface-hub",
    tags={"logger", "trackio"},
    good=[
        {"job": {"trainer.logger": ["trackio"]}, "packages": {"trackio": "0.38.1", "huggingface-hub": "1.32.0"}},
        {"job": {"trainer.logger": ["trackio"]}, "packages": {"trackio": "0.20.2", "huggingface-hub": "0.35.0"}},
        {"job": {"trainer.logger": ["trackio"]}, "packages": {"trackio": "0.20.2"}},
        {"job": {"trainer.logger": ["wandb"]}, "packages": {"trackio": "0.20.2", "huggingface-hub": "1.32.0"}},
    ],
    bad=[{"job": {"trainer.logger": ["trackio"]}, "packages": {"trackio": "0.20.2", "huggingface-hub": "1.32.0"}}],
)
def trackio_breaks_with_huggingface_hub(job: Job, packages: Packages) -> Iterator[Finding]:
    """The installed trackio cannot be imported with the installed huggingface_hub.

    huggingface_hub 1.32 moved `CommitOperationAdd`, which trackio imports up to 0.38.0. The job stops with an ImportError.

    Fix: upgrade trackio to 0.38.1 or later.

    See: trackio CHANGELOG 0.38.1
    """
    if not logs_to(job, "trackio"):
        return
    trackio, hub = packages.release("trackio"), packages.release("huggingface-hub")
    if trackio and hub and (0, 14) <= trackio < (0, 38, 1) and hub >= (1, 32):
        yield finding(
            "trackio {version} cannot be imported with huggingface_hub {hub}: the job stops with an ImportError",
            at=job.settings.get("trainer.logger"),
            fix="Upgrade trackio to 0.38.1 or later",
            commands=["pip install 'trackio>=0.38.1'"],
            version=packages.version("trackio"),
            hub=packages.version("huggingface-hub"),
        )


@check(
    "TRACKIO070",
    "trackio-sqlite-on-network-file-system",
    tags={"logger", "trackio", "disk", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["trackio"]}, "directories": [NETWORK_FOLDER]},
        {
            "job": {"trainer.logger": ["trackio"]},
            "environment": {"TRACKIO_STORAGE_MODE": "sqlite"},
            "directories": [{"named_by": "TRACKIO_DIR", "place": {"path": "/t", "file_system": "ext4"}}],
        },
        {"job": {"trainer.logger": ["wandb"]}, "environment": {"TRACKIO_STORAGE_MODE": "sqlite"}},
    ],
    bad=[
        {
            "job": {"trainer.logger": ["trackio"]},
            "environment": {"TRACKIO_STORAGE_MODE": "sqlite"},
            "directories": [NETWORK_FOLDER],
        }
    ],
)
def trackio_sqlite_on_network_file_system(
    job: Job, environment: Environment, directories: list[Directory]
) -> Iterator[Finding]:
    """trackio is told to use sqlite on a network file system.

    By itself it writes plain files there, because sqlite depends on locks that such file systems do badly.
    TRACKIO_STORAGE_MODE=sqlite overrules that; the database can be locked for good or damaged.

    Fix: unset TRACKIO_STORAGE_MODE, or set TRACKIO_DIR to a disk of the node.

    See: trackio 0.43.0, TRACKIO_STORAGE_MODE
         https://www.sqlite.org/faq.html#q5
    """
    folder = named_by(directories, "TRACKIO_DIR")
    if folder is None or not folder.place.is_network or not logs_to(job, "trackio"):
        return
    if environment.given("TRACKIO_STORAGE_MODE") and environment.text("TRACKIO_STORAGE_MODE").strip().lower() == "sqlite":
        yield finding(
            "TRACKIO_STORAGE_MODE is sqlite, and {path} is on a network file system ({kind}), whose locks are unreliable",
            at=environment.given("TRACKIO_STORAGE_MODE"),
            fix="Unset TRACKIO_STORAGE_MODE, or set TRACKIO_DIR to a disk of the node",
            commands=["unset TRACKIO_STORAGE_MODE"],
            path=folder.place.path,
            kind=folder.place.file_system,
        )
