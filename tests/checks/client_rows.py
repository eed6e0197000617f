"""Runs the real clients for `test_against_clients.py`: rows as JSON on stdin, one outcome for each as JSON on stdout.

An outcome is the empty string when the client accepts the row, else what it says. Run as a script in a child process, because
the clients keep state, start helpers and read the environment when they are imported.
"""

import importlib.util
import json
import os
import sys
import types


def said(call):
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - whatever the client raises is the outcome
        return f"{type(error).__name__}: {error}"
    return ""


def wandb_environment(row):
    """Whether wandb starts with these variables and this proxy setting."""
    from wandb.sdk.wandb_settings import Settings

    def call():
        Settings(**row.get("settings", {})).update_from_env_vars(row["environment"])

    return said(call)


def wandb_key(row):
    """What wandb says about the form of a key."""
    from wandb.sdk.lib.wbauth.validation import check_api_key

    return check_api_key(row["key"]) or ""


def wandb_credentials(_):
    """Whether wandb finds credentials in the environment and files of this process."""
    from wandb.sdk import wandb_setup
    from wandb.sdk.lib import wbauth

    settings = wandb_setup.singleton().settings
    if settings.mode in {"offline", "dryrun", "disabled"}:
        return ""

    def call():
        if not wbauth.authenticate_session(host=settings.base_url, source="test", prompt=False, update_session=False):
            raise LookupError("no key")

    return said(call)


def swanlab_credentials(_):
    """Whether SwanLab finds a key in the environment and files of this process."""
    from swanlab.sdk.internal.settings import create_settings

    return "" if create_settings().api_key else "no key"


def swanlab_host(_):
    """The server that SwanLab uses."""
    from swanlab.sdk.internal.settings import create_settings

    return create_settings().api_host


def swanlab_login(row):
    """Store a login as `swanlab login` does."""
    from pathlib import Path

    from swanlab.sdk.internal.pkg import nrc

    nrc.write(Path(row["path"]), row["host"], row["host"], row["key"])
    return ""


def mlflow_address(row):
    """Whether an experiment can be set with this tracking address."""
    import mlflow

    def call():
        mlflow.set_tracking_uri(row["address"])
        mlflow.set_experiment("p")

    return said(call)


def mlflow_parameter(row):
    from mlflow.utils.validation import _validate_length_limit, _validate_param_name

    def call():
        _validate_param_name(row["name"])
        _validate_length_limit("Param key", 250, row["name"])

    return said(call)


def mlflow_retries(row):
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES
    from mlflow.utils.rest_utils import _validate_max_retries

    def call():
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = row["value"]
        retries = MLFLOW_HTTP_REQUEST_MAX_RETRIES.get()
        _validate_max_retries(retries)
        if retries < 0:
            raise ValueError("negative")

    return said(call)


def tracking(row):
    """Whether verl's own Tracking starts; verl is entered without its package, which would import ray."""
    root = os.path.dirname(importlib.util.find_spec("verl").origin)
    for name, path in (("verl", root), ("verl.utils", os.path.join(root, "utils"))):
        module = types.ModuleType(name)
        module.__path__ = [path]
        sys.modules[name] = module
    from verl.utils.tracking import Tracking

    def call():
        tracker = Tracking(
            row.get("project", "p"), row.get("experiment", "e"), row["logger"], {"trainer": row.get("trainer", {})}
        )
        tracker.log({"a/b": 1.0}, 1)
        tracker.finish()

    return said(call)


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ask = globals()[sys.argv[1]]
    outcomes = [ask(row) for row in json.load(sys.stdin)]
    json.dump(outcomes, answer)
    answer.flush()
    os._exit(0)
