"""Fixtures for all tests, from tests/support."""

import doubles
import pytest
from real_stores import made_store, mariadb, postgres, store
from staged import authority, black_hole, closed_port, handlers, serve

__all__ = [
    "authority",
    "black_hole",
    "closed_port",
    "double",
    "handlers",
    "made_store",
    "mariadb",
    "postgres",
    "serve",
    "store",
]


@pytest.fixture
def double():
    """Starts doubles: `double("wandb", mode)`; they end with the test."""
    started = []

    def start(tracker, mode="", context=None):
        handler = {"wandb": doubles.WandbHandler, "swanlab": doubles.SwanlabHandler}[tracker]
        started.append(doubles.Double(handler, mode, context))
        return started[-1]

    yield start
    for one in started:
        one.close()
