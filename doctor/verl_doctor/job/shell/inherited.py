"""Variables of the environment as the script sees them."""

from __future__ import annotations

from verl_doctor.job.model import UNKNOWN, Variable
from verl_doctor.job.shell.state import Cell, Value
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
