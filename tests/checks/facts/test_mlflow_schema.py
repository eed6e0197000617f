"""The source of an installed MLflow, read: the forms that its releases have, and what is made of them."""

import pytest

from verl_doctor_checks.facts.mlflow_schema import FIRST_TABLES, Migrations, judge, read_migrations, release_of_revision

MODELS = """
class SqlRun(Base):
    '''A run.'''

    __tablename__ = "runs"


class SqlSpan(Base, Mixin):
    __tablename__ = "spans"
"""
# The two forms of mlflow 2.10 to 3.8 and of 3.13 on (store/db/utils.py).
EQUAL = """
def _all_tables_exist(engine):
    return {t for t in names if not t.startswith("alembic_")} == {
        SqlRun.__tablename__,
    }


def _initialize_tables(engine):
    pass
"""
SUBSET = """
def _all_tables_exist(engine):
    expected_tables = set(Base.metadata.tables)
    return expected_tables.issubset(actual_tables)


def _initialize_tables(engine):
    pass
"""
FIRST = "revision = 'aaa'\ndown_revision = None\ndef upgrade():\n    op.create_table(\n        'first',\n    )\n"
SECOND = "revision: str = 'bbb'\ndown_revision: str = 'aaa'\ndef upgrade():\n    op.create_table(SqlSpan.__tablename__)\n"
CAREFUL = "revision = 'ccc'\ndown_revision = 'bbb'\ndef upgrade():\n    if not has_table('x'):\n        op.create_table('x')\n"


@pytest.fixture
def install(tmp_path):
    def write(utils, *versions):
        store = tmp_path / "site" / "mlflow" / "store"
        for folder in ("db", "tracking/dbmodels", "db_migrations/versions"):
            (store / folder).mkdir(parents=True)
        (store / "db/utils.py").write_text(utils)
        (store / "tracking/dbmodels/models.py").write_text(MODELS)
        for number, text in enumerate(versions):
            (store / f"db_migrations/versions/{9 - number}.py").write_text(text)
        return [str(tmp_path / "elsewhere"), str(tmp_path / "site")]

    return write


def test_the_older_form(install):
    found = read_migrations(install(EQUAL, FIRST, SECOND, CAREFUL))
    assert (found.history, found.head, found.exact) == (("aaa", "bbb", "ccc"), "ccc", True)
    assert found.tables == {"runs"}
    assert found.creates == {"aaa": {"first"}, "bbb": {"spans"}}


def test_the_newer_form(install):
    found = read_migrations(install(SUBSET, FIRST, SECOND))
    assert (found.exact, found.tables) == (False, {"runs", "spans"})


def test_what_cannot_be_read_is_not_guessed(install, tmp_path):
    assert read_migrations([str(tmp_path)]) is None
    assert read_migrations(install("def something_else(): pass", FIRST)) is None


def test_two_branches_of_migrations_are_not_put_in_an_order(install):
    assert read_migrations(install(SUBSET, FIRST, SECOND, CAREFUL.replace("'bbb'", "'aaa'"))) is None


SUBSETS = Migrations(
    history=("a", "b", "c"), creates={"c": frozenset({"late"})}, tables=FIRST_TABLES | {"middle", "late"}, exact=False
)
ALL = [*FIRST_TABLES, "middle", "late", "alembic_version"]
SOME = [*FIRST_TABLES, "middle", "alembic_version"]


@pytest.mark.parametrize(
    ("tables", "revision", "misfits", "schema"),
    [
        (ALL, "c", [], "current"),
        ([*ALL, "_alembic_tmp_runs", "of_somebody_else"], "c", [], "current"),
        ([], "", [], "empty"),
        (["users"], "", [], "empty"),
        (["alembic_version"], "", [], "empty"),
        (SOME, "b", [], "upgraded"),
        ([*FIRST_TABLES], "", [], "upgraded"),
        (ALL, "b", [], "older"),
        (ALL, "z", [], "newer"),
        ([*SOME, "_alembic_tmp_runs"], "b", [], "unfinished"),
        ([*FIRST_TABLES, "late", "alembic_version"], "b", [], "unfinished"),
        (["runs", "alembic_version"], "b", [], "unfinished"),
        (["metrics"], "", [], "foreign"),
        (ALL, "c", ["metrics"], "foreign"),
        (["users", "alembic_version"], "z", [], "foreign"),
    ],
)
def test_what_mlflow_makes_of_a_database(tables, revision, misfits, schema):
    assert judge(tables, revision, misfits, SUBSETS) == schema


def test_with_the_older_form_a_further_table_starts_the_migrations():
    equal = Migrations(history=SUBSETS.history, creates=SUBSETS.creates, tables=SUBSETS.tables, exact=True)
    assert judge([*ALL, "other"], "b", [], equal) == "unfinished"  # they would make a table that is there
    assert judge(ALL, "b", [], equal) == "older"
    assert judge([*ALL, "other"], "c", [], equal) == "current"


def test_the_release_of_a_revision():
    assert release_of_revision("dc11669786a5") == "3.17.2"
    assert release_of_revision("unheard") == ""
