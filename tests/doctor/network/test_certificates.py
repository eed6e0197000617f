"""Which certificate authorities each client trusts, by variable (measured with wandb 0.31.0, swanlab 0.10.3, mlflow 3.17.2)."""

import ssl

import pytest

from verl_doctor.network.certificates import Trust, make_context, trust_of, trust_of_mlflow


@pytest.fixture
def bundle(tmp_path):
    path = tmp_path / "bundle.pem"
    path.write_text("x")
    return str(path)


def test_requests_takes_the_first_variable_that_is_not_empty(bundle):
    assert trust_of("requests", {"REQUESTS_CA_BUNDLE": bundle, "CURL_CA_BUNDLE": "/other"}).files == (bundle,)
    assert trust_of("requests", {"REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": bundle}).variable == "CURL_CA_BUNDLE"
    assert trust_of("requests", {"SSL_CERT_FILE": bundle}, bundles=("/c.pem",)).files == ("/c.pem",)


def test_requests_takes_a_folder_too(tmp_path):
    assert trust_of("requests", {"REQUESTS_CA_BUNDLE": str(tmp_path)}).folders == (str(tmp_path),)


def test_a_path_that_does_not_exist_is_fatal_for_requests_only():
    missing = trust_of("requests", {"REQUESTS_CA_BUNDLE": "/no/such.pem"})
    assert (missing.missing, missing.fatal) == ("/no/such.pem", True)
    passed_over = trust_of("go", {"SSL_CERT_FILE": "/no/such.pem"})
    assert (passed_over.missing, passed_over.fatal) == ("/no/such.pem", False)


def test_a_relative_path_starts_where_the_job_runs(bundle):
    folder, _, name = bundle.rpartition("/")
    assert trust_of("requests", {"REQUESTS_CA_BUNDLE": name}, directory=folder).files == (bundle,)


def test_go_reads_its_own_variables_only(bundle):
    assert bundle in trust_of("go", {"SSL_CERT_FILE": bundle}).files
    assert bundle not in trust_of("go", {"REQUESTS_CA_BUNDLE": bundle}).files
    assert trust_of("go", {"SSL_CERT_DIR": "/a:/b"}).folders == ("/a", "/b")


@pytest.mark.parametrize(("value", "verify"), [("true", False), ("1", False), ("false", True), ("", True)])
def test_checking_can_be_switched_off(value, verify):
    assert trust_of("go", {"WANDB_INSECURE_DISABLE_SSL": value}).verify is verify
    assert trust_of_mlflow({"MLFLOW_TRACKING_INSECURE_TLS": value}, bundles=("/c.pem",)).verify is verify
    assert trust_of("requests", {"MLFLOW_TRACKING_INSECURE_TLS": value}, bundles=("/c.pem",)).verify is True


def test_without_a_known_bundle_nothing_is_judged():
    assert trust_of("requests", {}).verify is False


def test_mlflow_s_own_variables_beat_those_of_requests(bundle):
    environment = {"MLFLOW_TRACKING_SERVER_CERT_PATH": bundle, "REQUESTS_CA_BUNDLE": "/no/such.pem"}
    assert trust_of_mlflow(environment).files == (bundle,)
    assert trust_of_mlflow({"REQUESTS_CA_BUNDLE": "/no/such.pem"}).fatal
    assert trust_of_mlflow({"MLFLOW_TRACKING_CLIENT_CERT_PATH": "/me.pem"}).client_certificate == "/me.pem"


def test_a_context_from_a_folder_passes_over_what_is_no_certificate(authority, tmp_path):
    (tmp_path / "README").write_text("not a certificate")
    (tmp_path / "ca.pem").write_bytes(authority.authority.cert_pem.bytes())
    context = make_context(Trust(folders=(str(tmp_path), "/no/such/folder")))
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_a_context_trusts_nothing_that_was_not_named():
    assert make_context(Trust()).get_ca_certs() == []
