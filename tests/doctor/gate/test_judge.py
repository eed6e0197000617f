"""The command as it is checked."""

import pytest

from verl_doctor.gate.judge import command_of


@pytest.mark.parametrize(
    ("program", "words", "command"),
    [
        ("/v/bin/python3", ["-m", "verl.trainer.main_ppo", "a=1"], ["/v/bin/python3", "-m", "verl.trainer.main_ppo", "a=1"]),
        ("/v/bin/python3", ["/v/bin/torchrun", "-m", "verl.x"], ["/v/bin/torchrun", "-m", "verl.x"]),
        ("/v/bin/python3", ["-sP", "/v/bin/ray", "job", "submit"], ["/v/bin/ray", "job", "submit"]),
        ("/v/bin/python3", ["-m", "ray", "x"], ["/v/bin/python3", "-m", "ray", "x"]),
        ("/v/bin/python3", ["main_ppo.py", "/v/bin/ray"], ["/v/bin/python3", "main_ppo.py", "/v/bin/ray"]),
        ("/v/bin/torchrun", ["-m", "verl.x"], ["/v/bin/torchrun", "-m", "verl.x"]),
        ("/v/bin/python3", [], ["/v/bin/python3"]),
    ],
)  # fmt: skip
def test_a_console_script_is_the_command(program, words, command):
    assert command_of(program, words) == command
