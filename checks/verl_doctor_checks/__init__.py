"""The checks that verl-doctor ships: one module a topic, named by the letters of its codes; `facts/` gather what they need."""

MODULES = ("facts.job", "facts.files", "file_logger", "launch", "tensorboard", "trackio", "verl")
