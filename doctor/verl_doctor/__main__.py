"""`python -m verl_doctor`."""

from verl_doctor.cli import main

main()
