import pytest

from verl_doctor.api import Environment, Job
from verl_doctor_checks.facts.swanlab import SwanlabFiles, swanlab_files

KEY = "k" * 21


@pytest.fixture
def look(tmp_path):
    def look(files=None, **variables):
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        variables = {"SWANLAB_CONFIG_DIR": str(tmp_path / "etc"), "HOME": str(tmp_path / "home")} | variables
        return swanlab_files(Job.example({"directory": str(tmp_path)}), Environment.example(variables))

    return look


def names_and_values(settings):
    return [(setting.name, str(setting.value)) for setting in settings]


def test_the_login_of_the_home_and_of_the_folder(look, tmp_path):
    found = look({"home/.swanlab/.netrc": f"machine https://api.swanlab.cn login https://swanlab.cn password {KEY}"})
    assert [(login.path, login.host, login.key.length) for login in found.logins] == [
        (str(tmp_path / "home/.swanlab/.netrc"), "https://api.swanlab.cn", 21)
    ]
    found = look({".swanlab/.netrc": f"machine http://swan.lan:8000/api login http://swan.lan:8000 password {KEY}"})
    assert [login.host for login in found.logins] == ["http://swan.lan:8000", "https://api.swanlab.cn"]
    assert KEY not in repr(found)


@pytest.mark.parametrize("variable", ["SWANLAB_ROOT", "SWANLAB_SAVE_DIR"])
def test_another_folder_for_logins(look, tmp_path, variable):
    found = look(
        {"root/.netrc": f"machine a login b password {KEY}", "root/config.yaml": "api_host: http://a\n"}, **{variable: "root"}
    )
    assert [login.host for login in found.logins] == ["a"]
    assert names_and_values(found.weak) == [("SWANLAB_API_HOST", "http://a")]


def test_a_broken_login_is_told_without_quoting_it(look):
    found = look({"home/.swanlab/.netrc": f"machine a login b password {KEY}\n{KEY}x"})
    assert [login.problem[:20] for login in found.logins] == ["syntax error on line"]
    assert KEY not in repr(found)


def test_settings_that_beat_the_environment_in_their_order(look):
    found = look(
        {
            "swanlab.yaml": "api_host: http://a\nrun:\n  id: r1\nmode: null\n",
            "etc/one.yaml": "web_host: http://b\n",
            ".env": 'OTHER=1\nexport SWANLAB_RUN_ID="r2"\nswanlab_api_host = http://c # why\n# SWANLAB_MODE=x\n',
            ".swanlab/config.yaml": "mode: offline\n",
        }
    )
    assert names_and_values(found.strong) == [
        ("SWANLAB_API_HOST", "http://a"),
        ("SWANLAB_RUN_ID", "r1"),
        ("SWANLAB_WEB_HOST", "http://b"),
        ("SWANLAB_RUN_ID", "r2"),
        ("SWANLAB_API_HOST", "http://c"),
    ]
    assert names_and_values(found.weak) == [("SWANLAB_MODE", "offline")]


def test_keys_in_settings_are_not_kept(look):
    found = look({"swanlab.yaml": f"api_key: {KEY}\n", ".env": f"SWANLAB_API_KEY={KEY}\n"})
    assert names_and_values(found.strong) == [("SWANLAB_API_KEY", "<secret of 21 characters>")] * 2
    assert KEY not in repr(found)


def test_files_that_are_not_yaml_or_hold_no_settings(look, tmp_path):
    found = look({"swanlab.yaml": "a: [\n", "home/.swanlab/config.yaml": "- a list\n", ".env": "nonsense\n"})
    assert found == SwanlabFiles(broken=[str(tmp_path / "swanlab.yaml")])


def test_nothing_is_looked_at_when_the_loggers_run_elsewhere(look):
    assert look({".env": "SWANLAB_MODE=x\n"}, unseen="elsewhere") == SwanlabFiles(unseen="elsewhere")
