"""What the job will do: its command, its composed configuration, its environment, and where each value came from."""
