"""Reading launch scripts: what they would start, with which words and which environment. Nothing is ever executed."""

from __future__ import annotations

from verl_doctor.job.shell.model import NOTE_KINDS, Script, ScriptLaunch
from verl_doctor.job.shell.reader import read_script

__all__ = ["NOTE_KINDS", "Script", "ScriptLaunch", "read_script"]
