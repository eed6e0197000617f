import pytest

from verl_doctor.api import Environment, Job
from verl_doctor_checks.facts.mlflow import MlflowFiles, mlflow_files


@pytest.fixture
def look(tmp_path):
    home = tmp_path / "home"
    home.mkdir()

    def look(**variables):
        job = Job.example({"directory": str(tmp_path)})
        return mlflow_files(job, Environment.example({"HOME": str(home)} | variables))

    return look


def test_stored_credentials_and_netrc(look, tmp_path):
    assert look().credentials == ""
    path = tmp_path / "home/.mlflow/credentials"
    path.parent.mkdir()
    path.write_text("[mlflow]\nmlflow_tracking_username = u\n", encoding="utf-8")
    (tmp_path / "home/.netrc").write_text("machine a login u password w\ndefault login u password w\n", encoding="utf-8")
    files = look()
    assert (files.credentials, files.netrc) == (str(path), str(tmp_path / "home/.netrc"))
    assert files.netrc_machines == ["a", "default"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([], False),
        (["mlruns"], False),
        (["mlruns/0"], False),
        (["mlruns/0", "mlruns/0/meta.yaml"], True),
        (["mlruns/models", "mlruns/models/meta.yaml"], False),
        (["mlruns/.trash", "mlruns/12", "mlruns/12/meta.yaml"], True),
    ],
)
def test_old_runs_of_the_file_store(look, tmp_path, made, expected):
    for name in made:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    assert look().file_store is expected


def test_whether_the_database_exists(look, tmp_path):
    (tmp_path / "here.db").write_bytes(b"")
    assert look(MLFLOW_TRACKING_URI="sqlite:///here.db").database_missing is False
    assert look(MLFLOW_TRACKING_URI="sqlite:///there.db").database_missing is True
    assert look(MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/here.db?timeout=5").database_missing is False
    assert look(MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/there.db").database_missing is True
    assert look(MLFLOW_TRACKING_URI="sqlite:///:memory:").database_missing is False
    assert look(MLFLOW_TRACKING_URI="http://mlflow.example.com").database_missing is False


def test_nothing_is_looked_at_when_the_loggers_run_elsewhere(look):
    assert look(unseen="the cluster runs elsewhere") == MlflowFiles(unseen="the cluster runs elsewhere")
