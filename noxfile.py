"""`nox`: the tests on every Python that is found among 3.10 to 3.13, and the style and type checks."""

import nox

nox.options.sessions = ["style", "tests"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def tests(session):
    session.install("-e", ".[test,real]")
    if session.python != "3.13":  # verl itself supports 3.10 to 3.12; without it the tests that drive it are skipped
        session.install("--no-deps", "verl==0.9.1")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session
def style(session):
    session.install("-e", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
