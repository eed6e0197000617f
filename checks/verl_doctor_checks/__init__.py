"""The checks that verl-doctor ships: one module a topic, named by the letters of its codes; `facts/` beside them gather what they need."""

MODULES = ("facts.job",)
