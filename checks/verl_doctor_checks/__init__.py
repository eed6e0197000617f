"""The checks that verl-doctor ships: one module a topic, named by the letters of its codes; `facts/` gather what they need."""

MODULES = (
    "facts.job",
    "facts.files",
    "facts.wandb",
    "facts.mlflow",
    "facts.swanlab",
    "facts.reachability",
    "file_logger",
    "launch",
    "mlflow",
    "net",
    "swanlab",
    "tensorboard",
    "trackio",
    "verl",
    "wandb",
)
