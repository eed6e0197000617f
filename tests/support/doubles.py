"""Loopback servers that speak what the W&B and SwanLab clients need; tests drive the real clients against them.

`mode` stages a failure; it may be changed while the server runs. `requests` records method, path, operation and credentials.
"""

import base64
import gzip
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WANDB_KEY = "a1" * 20
SWANLAB_KEY = "k" * 21


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is no error of the test."""


class Double:
    """A server in this process. `url` is its address."""

    def __init__(self, handler, mode="", context=None):
        self.mode = mode
        self.requests = []
        self.state = {}
        double = self

        class Handler(handler):
            server_double = double

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def seen(self, text):
        """The recorded requests in whose path or operation this text stands."""
        return [request for request in self.requests if text in request["path"] or text == request["operation"]]


class Base(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Say nothing."""

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def reply(self, status, content, kind="application/json", **headers):
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def record(self, operation="", credentials=""):
        self.server_double.requests.append(
            {"method": self.command, "path": self.path, "operation": operation, "credentials": credentials}
        )

    def staged(self):
        """Whether the mode has answered already, in a way that has nothing to do with the service."""
        mode = self.server_double.mode
        if mode.isdigit() and int(mode) >= 429:
            self.reply(int(mode), {"errors": [{"message": "staged"}], "message": "staged"})
        elif mode == "portal":
            self.reply(200, "<html><title>Sign in to the network</title></html>", "text/html")
        elif mode == "login page":
            self.reply(302, "", "text/html", Location="http://portal.invalid/login?back=1")
        elif mode == "hang":
            time.sleep(30)
            self.close_connection = True
        else:
            return False
        return True

    def handle_request(self):
        raise NotImplementedError

    def do_GET(self):
        self.path = re.sub(r"^http://[^/]+", "", self.path)  # a proxy passes the absolute form on
        self.handle_request()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names that http.server wants


class WandbHandler(Base):
    """Facts: wandb 0.31.0, the operations that its core sends for login, init, log and finish."""

    def handle_request(self):
        data = self.body()
        double = self.server_double
        scheme, _, rest = self.headers.get("Authorization", "").partition(" ")
        key = base64.b64decode(rest).decode().partition(":")[2] if scheme == "Basic" else ""
        if not self.path.startswith("/graphql"):
            self.record(credentials=key)
            if "file_stream" in self.path:
                stream = json.loads(data)
                double.state.setdefault("streams", []).append(stream)
                lines = stream.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
                double.state.setdefault("history", []).extend(map(json.loads, lines))
            self.reply(200, {"exitcode": None, "limits": {}})
            return
        query = json.loads(data)
        found = re.search(r"\b(?:query|mutation)\s+(\w+)", query.get("query", ""))
        operation = found[1] if found else ""
        self.record(operation, key)
        if self.staged():
            return
        if double.mode == "403":
            self.reply(403, {"errors": [{"message": "permission denied", "extensions": {"code": "PERMISSION_ERROR"}}]})
        elif key not in {WANDB_KEY, f"local-{WANDB_KEY}"}:
            self.reply(401, {"errors": [{"message": "user is not logged in"}], "data": None})
        elif double.mode == "null" and operation.lower() == "viewer":
            self.reply(200, {"data": {"viewer": None}})
        else:
            self.reply(200, {"data": self.answer(operation, query.get("variables") or {}, query.get("query", ""))})

    def answer(self, operation, variables, query):
        entity = variables.get("entity") or variables.get("entityName") or "ada"
        if operation == "DeleteRun":
            self.server_double.state["deleted"] = variables["id"]
            return {"deleteRun": {"clientMutationId": None}}
        if "project(" in query and "run(" in query and operation != "RunStoppedStatus":
            return {"project": {"internalId": 1, "id": "UHJv", "readOnly": False, "run": self.run(variables)}}
        if operation == "UpsertBucket":
            self.server_double.state.setdefault("display name", variables.get("displayName") or "run")
            project = {"id": "UHJv", "name": variables.get("project") or "p", "entity": {"id": "RW50", "name": entity}}
            bucket = {
                "id": "UnVu", "name": variables.get("name") or "run", "displayName": "run", "description": None, "config": "{}",
                "sweepName": None, "historyLineCount": 0, "project": project,
            }  # fmt: skip
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.server_double.url}/put/{name}"} for name in variables.get("files", [])]
            return {"createRunFiles": {"runID": "UnVu", "uploadHeaders": [], "files": files}}
        if "viewer" in query:
            teams = {"edges": [{"node": {"name": "ada"}}, {"node": {"name": "lab"}}]}
            return {
                "viewer": {
                    "id": "VXNl", "entity": "ada", "username": "ada", "email": "a@example.invalid", "name": "A", "flags": "{}",
                    "admin": False, "deletedAt": None, "apiKeys": {"edges": []}, "teams": teams,
                }
            }  # fmt: skip
        if "serverInfo" in query:
            local = {"versionOnThisInstanceString": self.server_double.state.get("version", "0.75.0")}
            versions = {"max_cli_version": "0.99.0", "min_cli_version": "0.8.0"}
            return {"serverInfo": {"features": [], "cliVersionInfo": versions, "latestLocalVersionInfo": local}}
        if operation == "RunResumeStatus":
            return {"model": {"id": "UHJv", "name": "p", "entity": {"id": "RW50", "name": entity}, "bucket": None}}
        if operation == "RunStoppedStatus":
            return {"project": {"run": {"stopped": False}}}
        return {}

    def run(self, variables):
        """A run as the public API reads it, None for one that was never made."""
        state = self.server_double.state
        if "display name" not in state:
            return None
        rows = [
            {key: str(value) if value != value else value for key, value in row.items()} for row in state.get("history", [])
        ]
        last = max((row["_step"] for row in rows), default=0)
        return {
            "__typename": "Run", "id": "UnVu", "tags": [], "name": variables.get("name") or variables.get("run"),
            "displayName": state["display name"], "sweepName": None, "state": "finished", "group": None, "jobType": None,
            "commit": None, "readOnly": False, "createdAt": "2026-12-01T00:00:00", "heartbeatAt": "2026-12-01T00:10:00",
            "description": None, "notes": None, "historyLineCount": len(rows), "user": {"name": "A", "username": "ada"},
            "config": "{}", "summaryMetrics": "{}", "systemMetrics": "{}", "projectId": 1, "files": None,
            "historyKeys": {"sets": [], "keys": {}, "lastStep": last}, "history": [json.dumps(row) for row in rows],
            "parquetHistory": {"parquetUrls": [], "liveData": rows},
        }  # fmt: skip


class SwanlabHandler(Base):
    """Facts: swanlab 0.10.3, the requests of login, init, log and finish."""

    def handle_request(self):
        data = self.body()
        double = self.server_double
        path = self.path.partition("?")[0]
        self.record(credentials=self.headers.get("authorization", ""))
        if self.staged():
            return
        if path in {"/api", "/api/"}:
            self.reply(200, "OK", "text/plain")
        elif path == "/api/login/api_key":
            self.log_in()
        elif match := re.fullmatch(r"/api/projects/([^/]+)", path):
            name = json.loads(data)["name"]
            double.state[match[1], name] = True
            self.reply(201, {"name": name, "username": match[1], "path": f"/{match[1]}/{name}"})
        elif (match := re.fullmatch(r"/api/project/([^/]+)/([^/]+)", path)) and self.command == "GET":
            self.project(*match.groups())
        elif re.fullmatch(r"/api/project/([^/]+)/([^/]+)/experiment", path):
            asked = json.loads(data)
            experiment = {"cuid": "ecuid", "slug": asked.get("cuid", "slug"), "name": asked["name"]}
            double.state["experiment"] = experiment | {"createdAt": "2026-12-01T00:00:00.000Z", "state": "FINISHED"}
            self.reply(201, experiment)
        elif re.fullmatch(r"/api/project/[^/]+/[^/]+/runs/[^/]+", path) and self.command in {"GET", "DELETE"}:
            double.state.setdefault("deleted", []).extend([path] if self.command == "DELETE" else [])
            self.reply(200, double.state.get("experiment", {}))
        elif path == "/api/house/metrics/scalar/export":
            double.state["exported"] = [column["key"] for column in json.loads(data)["columns"]]
            self.reply(200, {"cosKey": "export.csv"})
        elif path == "/api/files/presigned/get":
            self.reply(200, {"urls": [f"{double.url}/export.csv"]})
        elif path == "/export.csv":
            self.reply(200, self.export(), "text/csv")
        elif path == "/api/house/metrics":
            double.state.setdefault("metrics", []).extend(json.loads(data)["metrics"])
            self.reply(200, {"message": "ok"})
        elif path == "/api/resources/presigned/put":
            count = len(json.loads(data)["paths"])
            self.reply(200, {"urls": [f"{double.url}/put/{number}" for number in range(count)]})
        elif path.endswith("/state"):
            double.state["finished"] = json.loads(data)
            self.reply(200, {"message": "ok"})
        else:
            self.reply(200, {"message": "ok"})

    def export(self):
        """The scalars as a table: a row for each step, for each key its value and its time."""
        keys = self.server_double.state["exported"]
        values = {(m["index"], m["key"]): m["data"] for m in self.server_double.state["metrics"] if "data" in m}
        header = ["step", *(f"{kind}" for key in keys for kind in (f"e-{key}_step", f"e-{key}_timestamp"))]
        lines = [
            [str(step), *(text for key in keys for text in (str(values.get((step, key), "")), "1764547200000"))]
            for step in sorted({step for step, key in values if key in keys})
        ]
        return "\n".join(",".join(line) for line in [header, *lines]) + "\n"

    def log_in(self):
        if self.server_double.mode == "403":
            self.reply(403, {"code": "Forbidden", "message": "You need to be verified first"})
        elif self.headers.get("authorization") != SWANLAB_KEY:
            self.reply(401, {"code": "Unauthorized", "message": "invalid api key"})
        else:
            user = {"username": "ada", "name": "Ada"}
            self.reply(200, {"sid": "s3ss10n-s3ss10n", "expiredAt": "2099-12-31T23:59:59.000Z", "userInfo": user})

    def project(self, user, name):
        if (user, name) not in self.server_double.state:
            self.reply(404, {"code": "NotFound", "message": "no"})
            return
        counts = {"experiments": 0, "contributors": 1, "collaborators": 0, "clones": 0}
        self.reply(
            200,
            {
                "cuid": "pcuid", "name": name, "version": 1, "group": {"username": user}, "username": user,
                "path": f"/{user}/{name}", "visibility": "PRIVATE", "_count": counts,
            },
        )  # fmt: skip
