"""Output formats, one module each. A writer turns a finished report into text; it knows the report and nothing else."""
