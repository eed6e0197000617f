"""Variables of the environment as the script sees them."""

from __future__ import annotations

import re

from verl_doctor.job.model import UNKNOWN, Variable
from verl_doctor.job.shell.state import Cell, State, Value
from verl_doctor.secrets import Secret, original


def cell_of(variable: Variable) -> Cell:
    """The variable of the shell. A credential has its value here, in this process; it is protected again when it is kept."""
    value = variable.value
    text = value.reveal() if isinstance(value, Secret) else original(variable.name, value)
    if text is None or (variable.unknown and UNKNOWN not in text):
        content = Value(UNKNOWN, variable.unknown or "a credential that is not kept")
    else:
        content = Value(text, variable.unknown)
    return Cell(content, exported=True, inherited=variable)


def starting_state(arguments: list[str], environment: dict[str, Variable], directory: str) -> State:
    """The state that bash starts a script with; it sets some variables itself, whatever the environment says."""
    variables: dict[str, Cell] = {}
    for name, variable in environment.items():
        if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in ("_", "SHLVL", "OLDPWD", "IFS", "OPTIND"):
            variables[name] = cell_of(variable)
    return State(variables=variables, positional=[Value(text) for text in arguments], directory=directory)
