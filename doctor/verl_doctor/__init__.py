"""verl-doctor: finds what would make the experiment tracking of a verl job fail, lie or lose data."""

__version__ = "0.1.0"
