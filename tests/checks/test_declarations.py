"""Rules that hold for every declared check, and the texts that go with it."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import verl_doctor_checks
from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.registry import example_facts, load_built_in
from verl_doctor.translation import read_texts

REGISTRY = load_built_in()
CHECKS = [pytest.param(check, id=check.code) for check in REGISTRY.checks.values()]
PACKAGE = Path(verl_doctor_checks.__file__).parent
CHECK_MODULES = sorted(path for path in PACKAGE.glob("*.py") if path.name != "__init__.py")
FORBIDDEN_IN_CHECKS = {"os", "sys", "socket", "subprocess", "pathlib", "requests", "urllib", "io", "shutil", "tempfile", "open"}
PREFIX_OF_MODULE = {"launch_script": "LAUNCH", "file_logger": "FILE", "mlflow_store": "MLFLOW", "tensorboard": "TB"}
FIXED = {
    "WANDB001": "wandb-key-missing",
    "MLFLOW002": "mlflow-database-unreachable",
    "VERL010": "loggers-repeat",
    "VERL015": "generations-too-large",
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_has_rows_tags_and_a_well_formed_code(check):
    assert re.fullmatch(r"[A-Z]+\d{3}", check.code)
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", check.slug)
    assert check.good, f"{check.code} has no good row"
    assert check.bad, f"{check.code} has no bad row"
    assert check.tags
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", tag) for tag in check.tags)
    assert all(need in REGISTRY.facts for need in check.needs)


@pytest.mark.parametrize("check", CHECKS)
def test_the_code_stands_in_the_file_of_its_topic(check):
    module = check.function.__module__.rpartition(".")[2]
    expected = {"crash": "DOCTOR"}.get(module) or PREFIX_OF_MODULE.get(module, module.upper())
    assert check.topic == expected


@pytest.mark.parametrize("check", CHECKS)
def test_every_text_has_a_chinese_form_with_the_same_places(check):
    texts = read_texts(BUILT_IN_PACKAGE, "zh", topic_file(check)).get(check.code, {})
    missing = [part for part in ("title", "why", "fix") if not re.search(r"[\u4e00-\u9fff]", texts.get(part, ""))]
    assert not missing, f"{check.code}: no Chinese {missing} in locale/zh/{topic_file(check)}.toml"
    for template in templates_of(check):
        chinese = texts.get("messages", {}).get(template)
        assert chinese, f"{check.code}: no Chinese for {template!r}"
        assert places(chinese) == places(template)


def topic_file(check):
    return check.topic.lower()


def templates_of(check):
    """The templates that the rows bring out, and the literal ones in the source."""
    found = set()
    for row in check.bad:
        for finding in check.function(**example_facts(check, REGISTRY, row)):
            found.add(finding.message.template)
            if finding.fix:
                found.add(finding.fix.message.template)
    return found


def places(template):
    return set(re.findall(r"{(\w+)", template))


def test_no_chinese_text_for_a_code_that_does_not_exist():
    for path in (PACKAGE / "locale" / "zh").glob("*.toml"):
        for code in read_texts(BUILT_IN_PACKAGE, "zh", path.stem):
            assert code in REGISTRY.checks, f"{path.name} describes {code}"
            assert topic_file(REGISTRY.checks[code]) == path.stem


def test_codes_that_users_know_keep_their_number_and_name():
    for code, slug in FIXED.items():
        assert REGISTRY.checks[code].slug == slug


@pytest.mark.parametrize("path", CHECK_MODULES, ids=lambda path: path.name)
def test_a_check_reads_facts_and_nothing_else(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").split(".")[0]}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = {node.func.id} & {"open"}
        else:
            continue
        assert not names & FORBIDDEN_IN_CHECKS, f"{path.name}:{node.lineno} uses {names & FORBIDDEN_IN_CHECKS}"


def test_every_module_of_the_package_is_listed():
    listed = set(verl_doctor_checks.MODULES)
    present = {path.stem for path in CHECK_MODULES} | {
        f"facts.{path.stem}" for path in (PACKAGE / "facts").glob("*.py") if path.name != "__init__.py"
    }
    for name in listed | present:
        importlib.import_module(f"{BUILT_IN_PACKAGE}.{name}")
    declaring = {name for name in present if declares(importlib.import_module(f"{BUILT_IN_PACKAGE}.{name}"))}
    assert listed == declaring


def declares(module):
    return any(
        hasattr(value, "__declared__") and value.__module__ == module.__name__
        for value in vars(module).values()
        if callable(value)
    )


def test_the_source_roots_hold_no_module_of_their_own():
    for root in (PACKAGE.parent, PACKAGE.parent.parent / "doctor"):
        assert not list(root.glob("*.py")), f"a .py file directly in {root} would be importable by everyone"
