"""Start-up is part of the product: what a command imports, and what it never imports."""

import json
import subprocess
import sys

import pytest

VENDORS = {"wandb", "mlflow", "swanlab", "ray", "torch", "trackio", "tensorboard", "verl", "tensordict", "transformers"}
HEAVY = {"rich", "hydra", "omegaconf", "msgspec", "requests", "tree_sitter", "psutil", "yaml"}


def modules_after(*arguments):
    program = (
        "import json, sys\n"
        "from verl_doctor.cli import main\n"
        f"sys.argv = ['verl-doctor', *{list(arguments)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}, done.stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["explain", "WANDB001"], ["list"], ["explain", "VERL010", "--lang", "zh"]]
)
def test_help_version_explain_and_list_import_little(arguments):
    modules, output = modules_after(*arguments)
    assert output
    assert not modules & (VENDORS | HEAVY)


def test_check_imports_no_vendor():
    modules, output = modules_after("check", "logger", "trainer.logger=[console,wandb,mlflow,swanlab]")
    assert "checks passed" in output
    assert not modules & VENDORS
