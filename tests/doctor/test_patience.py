"""Looking again at a server that is coming up, and how long one look may take."""

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from verl_doctor.api import Unavailable, check, fact, finding
from verl_doctor.diagnosis import diagnose
from verl_doctor.job.model import Argument, Request, Source, Variable
from verl_doctor.patience import judge_in_time
from verl_doctor.planner import plan
from verl_doctor.registry import Registry
from verl_doctor.report import Severity
from verl_doctor.runner import gather

ANSWER = b'{"error_code": "RESOURCE_DOES_NOT_EXIST"}'


class MlflowLike(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def comes_up():
    """Starts a server whose port refuses connections for some seconds; ends it with the test."""
    server = HTTPServer(("127.0.0.1", 0), MlflowLike, bind_and_activate=False)
    server.server_bind()

    serving = threading.Event()
    timers = []

    def serve():
        server.server_activate()
        serving.set()
        server.serve_forever(0.05)

    def start(after):
        timers.append(threading.Timer(after, serve))
        timers[0].start()
        return server.server_port

    yield start
    timers[0].cancel()
    if serving.is_set():
        server.shutdown()
    timers[0].join()
    server.server_close()


def request_for(port):
    source = Source("shell", "environment")
    environment = {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}", "HOME": "/nonexistent"}
    return Request(
        overrides=[Argument("trainer.logger=[mlflow]")],
        environment={name: Variable(name, value, source) for name, value in environment.items()},
        directory="/",
        verl_version="0.9.1",
    )


def failures(report):
    return {result.code for result in report.results if result.state == "fail" and result.severity is Severity.ERROR}


def test_a_server_that_comes_up_while_one_waits(comes_up):
    said = []
    begun = time.monotonic()
    report = diagnose([request_for(comes_up(after=3))], ["network"], wait=20, notice=said.append)
    assert not failures(report)
    assert 3 < time.monotonic() - begun < 10
    assert "waiting for MLFLOW" in said[0]
    assert "at most" in said[0]


def test_without_waiting_it_fails_at_once(comes_up):
    report = diagnose([request_for(comes_up(after=3))], ["network"])
    assert any(code.startswith("MLFLOW") for code in failures(report))
    assert report.duration_s < 2


def test_the_wait_has_an_end(closed_port):
    said = []
    report = diagnose([request_for(closed_port)], ["network"], wait=0.5, notice=said.append)
    assert failures(report)
    assert report.duration_s < 3
    assert len(said) >= 1


class Counted:
    """A registry whose facts count how often they were gathered; the server is there at the third look."""

    def __init__(self, severity=Severity.ERROR):
        self.counts = {"local": 0, "server": 0, "both": 0}

        @fact()
        def local():
            self.counts["local"] += 1
            return 1

        @fact(network=True)
        def server():
            self.counts["server"] += 1
            return self.counts["server"] > 2

        @fact()
        def both(local, server):
            self.counts["both"] += 1
            return server

        @check("NET901", "net-down", tags={"network"}, severity=severity, good=[], bad=[])
        def down(both):
            """Title.

            Why.

            Fix: it.

            See: here
            """
            if not both:
                yield finding("it is down")

        @check("FILE901", "file-bad", tags={"files"}, good=[], bad=[])
        def bad(local):
            """Title.

            Why.

            Fix: it.

            See: here
            """
            yield finding("it is bad")

        registry = Registry()
        for declared in (local, server, both, down, bad):
            registry.add(declared.__declared__)
        self.plan = plan(registry, [])

    def judge(self, wait, **options):
        limits = {"budget": 5.0, "offline": False} | options
        results, _ = judge_in_time(self.plan, {}, job="", wait=wait, pause=0.01, notice=lambda _: None, **limits)
        return {result.code: result.state for result in results}


def test_only_what_hangs_on_the_network_is_gathered_again():
    counted = Counted()
    assert counted.judge(wait=5) == {"FILE901": "fail", "NET901": "pass"}
    assert counted.counts == {"local": 1, "server": 3, "both": 3}


def test_nobody_waits_for_a_warning_or_offline():
    for counted, options in ((Counted(Severity.WARNING), {}), (Counted(), {"offline": True})):
        counted.judge(wait=5, **options)
        assert counted.counts["server"] <= 1


@pytest.mark.parametrize(("network", "state"), [(True, "gathered"), (False, "timeout")])
def test_a_longer_time_for_each_server_reaches_the_facts_of_the_network(network, state):
    @fact(timeout=0.1, network=network)
    def slow():
        time.sleep(0.4)

    known = {"budget": 5.0, "offline": False, "notice": lambda _: None}
    assert gather([slow.__declared__], {}, probe_timeout=6.0, **known)["slow"].state == state


def test_one_look_ends_when_it_should(black_hole):
    report = diagnose([request_for(black_hole)], ["network"], probe_timeout=0.5)
    assert failures(report)
    assert report.duration_s < 2


def test_what_is_not_asked_for_is_skipped_and_nothing_is_incomplete():
    report = diagnose([request_for(1)], ["live"], offline=False, probe_timeout=0.3)
    assert {result.reason for result in report.results} == {"needs live_round_trips: --live was not given"}
    assert report.exit_status == 0
    assert all(not result.code.startswith("LIVE") for result in diagnose([request_for(1)], ["mlflow"]).results)


def test_unavailable_stays_what_it_was():
    @fact()
    def gone():
        raise Unavailable("no")

    outcome = gather([gone.__declared__], {}, budget=1.0, offline=False, notice=lambda _: None)["gone"]
    assert (outcome.state, outcome.reason) == ("unavailable", "no")
