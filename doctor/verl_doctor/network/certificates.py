"""Which certificate authorities a client trusts, from the environment it sees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    import ssl

TlsClient = Literal["go", "requests"]

# Go 1.27, crypto/x509/root_linux.go: the first file that exists, and every file of the folders.
_SYSTEM_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_MAX_FILES_OF_A_FOLDER = 1000
_TRUE = {"1", "true", "t", "yes", "y", "on"}


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """What a client checks the certificate of a server against.

    `variable` names what decided, empty for the client's own choice. `missing` is a path in it that does not exist; `fatal`
    says that the client raises an error for it. `client_certificate` is a PEM file to show to the server.
    """

    verify: bool = True
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variable: str = ""
    missing: str = ""
    fatal: bool = False
    client_certificate: str = ""


def trust_of(client: TlsClient, environment: Mapping[str, str], *, directory: str = "", bundles: tuple[str, ...] = ()) -> Trust:
    """The trust of wandb's core (`go`) or of a library on requests (`requests`: SwanLab).

    Relative paths start at `directory`. `bundles` are what requests trusts by itself; without any nothing is checked, since
    what it brings along is then not known.
    """
    if client == "go":
        return _go(environment, directory)
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if environment.get(variable):
            return _named(variable, environment[variable], directory)
    return Trust(files=bundles, verify=bool(bundles))


def system_bundle() -> tuple[str, ...]:
    """The file with the authorities that the system trusts, if there is one."""
    return _existing(_SYSTEM_FILES)[:1]


def trust_of_mlflow(environment: Mapping[str, str], *, directory: str = "", bundles: tuple[str, ...] = ()) -> Trust:
    """The trust of MLflow's client: its own variables beat those of requests (mlflow 3.17.2, utils/rest_utils.py)."""
    if is_true(environment.get("MLFLOW_TRACKING_INSECURE_TLS", "")):
        found = Trust(verify=False, variable="MLFLOW_TRACKING_INSECURE_TLS")
    elif environment.get("MLFLOW_TRACKING_SERVER_CERT_PATH"):
        variable = "MLFLOW_TRACKING_SERVER_CERT_PATH"
        found = _named(variable, environment[variable], directory)
    else:
        found = trust_of("requests", environment, directory=directory, bundles=bundles)
    shown = environment.get("MLFLOW_TRACKING_CLIENT_CERT_PATH", "")
    return msgspec.structs.replace(found, client_certificate=os.path.join(directory, shown)) if shown else found


def _named(variable: str, path: str, directory: str) -> Trust:
    """A path that requests takes as it is, file or folder, and refuses when there is nothing (requests 2.34.2, adapters.py)."""
    path = os.path.join(directory, path)
    if not os.path.exists(path):
        return Trust(variable=variable, missing=path, fatal=True)
    is_folder = os.path.isdir(path)
    return Trust(variable=variable, files=() if is_folder else (path,), folders=(path,) if is_folder else ())


def _go(environment: Mapping[str, str], directory: str) -> Trust:
    if is_true(environment.get("WANDB_INSECURE_DISABLE_SSL", "")):
        return Trust(verify=False, variable="WANDB_INSECURE_DISABLE_SSL")
    file = environment.get("SSL_CERT_FILE", "")
    folders = environment.get("SSL_CERT_DIR", "")
    file = os.path.join(directory, file) if file else ""
    missing = file if file and not os.path.isfile(file) else ""
    # A file in SSL_CERT_FILE replaces the system's bundle, but the system's folders, which hold the same, are still read.
    files = [file] if file and not missing else []
    if not folders:
        files += system_bundle()
    return Trust(
        files=tuple(files),
        folders=tuple(os.path.join(directory, folder) for folder in folders.split(":") if folder),
        variable="SSL_CERT_FILE" if file else "SSL_CERT_DIR" if folders else "",
        missing=missing,
    )


def _existing(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if os.path.isfile(path))


def is_true(text: str) -> bool:
    """Whether a switch is on."""
    return text.strip().lower() in _TRUE


def make_context(trust: Trust, *, verify: bool = True) -> ssl.SSLContext:
    """A TLS context with this trust and nothing of this process's own environment.

    Raises OSError (ssl.SSLError is one) when a file cannot be read or holds no certificate.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if trust.client_certificate:
        context.load_cert_chain(trust.client_certificate, password=_no_password)
    if not (trust.verify and verify):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Go trusts every certificate of its files, intermediate ones too
    for path in trust.files:
        context.load_verify_locations(cafile=path)
    for folder in trust.folders:
        _load_folder(context, folder)
    return context


def _no_password() -> str:
    # Without a function OpenSSL would ask for the password on the terminal.
    raise OSError("the key is protected by a password")


def _load_folder(context: ssl.SSLContext, folder: str) -> None:
    try:
        names = sorted(os.listdir(folder))[:_MAX_FILES_OF_A_FOLDER]
    except OSError:  # Go passes over a folder that does not exist
        return
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        try:
            context.load_verify_locations(cafile=path)
        except OSError:  # not a certificate: both clients pass over it
            continue
