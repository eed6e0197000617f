"""The runner: facts side by side, deadlines that hold, faults that stay where they happen."""

import subprocess
import sys
import textwrap
import time

import pytest

from verl_doctor.api import Severity, Unavailable, Undetermined, check, fact, finding
from verl_doctor.planner import plan
from verl_doctor.registry import Registry
from verl_doctor.report import exit_status
from verl_doctor.runner import run

DOC = """Something is wrong.

    It matters.

    Fix: do something.
    """


def registry(*functions):
    built = Registry()
    for function in functions:
        built.add(function.__declared__)
    return built


def declare(code, function, **options):
    function.__doc__ = DOC
    return check(code, code.lower(), tags={"demo"}, good=[{}], bad=[{}], **options)(function)


@fact()
def base():
    return 1


@fact()
def derived(base):
    return base + 1


@fact()
def absent():
    raise Unavailable("there is none")


@fact(timeout=0.2)
def hanging():
    time.sleep(30)


@fact(network=True)
def remote():
    return "answer"


def states(results):
    return {result.code: result.state for result in results}


def test_facts_feed_checks_and_other_facts():
    def uses(base, derived):
        yield finding("{a} and {b}", a=base, b=derived)

    results, timings = run(plan(registry(base, derived, declare("DEMO001", uses)), ["all"]), {})
    assert [result.message.text for result in results] == ["1 and 2"]
    assert {timing.name: timing.state for timing in timings} == {"base": "gathered", "derived": "gathered"}


def test_a_given_fact_is_not_gathered():
    def uses(absent):
        yield finding("{x}", x=absent)

    results, _ = run(plan(registry(absent, declare("DEMO001", uses)), ["all"], given=["absent"]), {"absent": 5})
    assert results[0].message.text == "5"


def test_a_check_without_its_fact_is_skipped_with_the_cause_and_others_run():
    results, _ = run(
        plan(
            registry(base, absent, declare("DEMO001", lambda absent: []), declare("DEMO002", lambda base: [])),
            ["all"],
        ),
        {},
    )
    assert states(results) == {"DEMO001": "skip", "DEMO002": "pass"}
    assert results[0].reason == "needs absent: there is none"
    assert exit_status(results) == 3
    assert exit_status(results, allow_incomplete=True) == 0


def test_the_cause_is_named_through_a_chain_of_facts():
    @fact()
    def second(absent):
        return absent

    results, _ = run(plan(registry(absent, second, declare("DEMO001", lambda second: [])), ["all"]), {})
    assert results[0].reason == "needs second: needs absent: there is none"


def test_a_crash_of_a_check_is_its_own_code_and_the_others_run():
    def broken(base):
        raise KeyError("boom")

    results, _ = run(plan(registry(base, declare("DEMO001", broken), declare("DEMO002", lambda base: [])), ["all"]), {})
    assert states(results) == {"DOCTOR001": "crash", "DEMO002": "pass"}
    assert "DEMO001" in results[0].message.text
    assert "KeyError: 'boom'" in results[0].message.text
    assert exit_status(results) == 3


def test_a_crash_of_a_fact_skips_its_checks_with_the_exception():
    @fact()
    def broken():
        raise RuntimeError("no")

    results, _ = run(plan(registry(broken, declare("DEMO001", lambda broken: [])), ["all"]), {})
    assert results[0].state == "skip"
    assert "RuntimeError: no (test_runner.py:" in results[0].reason


@pytest.mark.parametrize(("essential", "status"), [(False, 0), (True, 3)])
def test_an_undetermined_value_is_no_finding(essential, status):
    def undecided(base):
        raise Undetermined("set by $(date)", essential=essential)

    results, _ = run(plan(registry(base, declare("DEMO001", undecided)), ["all"]), {})
    assert states(results) == {"DEMO001": "unknown"}
    assert exit_status(results) == status


def test_what_was_found_before_an_undetermined_value_is_kept():
    def half(base):
        yield finding("found")
        raise Undetermined("the rest")

    results, _ = run(plan(registry(base, declare("DEMO001", half)), ["all"]), {})
    assert states(results) == {"DEMO001": "fail"}


def test_offline_skips_network_facts_and_is_not_incomplete():
    results, timings = run(plan(registry(remote, declare("DEMO001", lambda remote: [])), ["all"]), {}, offline=True)
    assert states(results) == {"DEMO001": "skip"}
    assert timings[0].state == "skipped"
    assert exit_status(results) == 0


def test_the_deadline_is_in_the_message_and_others_are_not_delayed():
    begun = time.monotonic()
    results, _ = run(plan(registry(hanging, declare("DEMO001", lambda hanging: [])), ["all"]), {})
    assert time.monotonic() - begun < 5
    assert results[0].reason == "needs hanging: no answer within 0.2 s"


def test_the_total_budget_ends_every_fact():
    @fact(timeout=30)
    def slow():
        time.sleep(30)

    begun = time.monotonic()
    results, _ = run(plan(registry(slow, declare("DEMO001", lambda slow: [])), ["all"]), {}, budget=0.2)
    assert time.monotonic() - begun < 5
    assert results[0].reason == "needs slow: the total time budget was used up"


def test_facts_run_side_by_side():
    def sleeper(name):
        def gather():
            time.sleep(0.4)
            return name

        gather.__name__ = name
        return fact()(gather)

    def uses(a, b, c, d):
        return []

    begun = time.monotonic()
    run(plan(registry(*map(sleeper, "abcd"), declare("DEMO001", uses)), ["all"]), {})
    assert time.monotonic() - begun < 1.2  # 1.6 s one after the other


def test_the_order_of_results_does_not_depend_on_timing():
    def sleeper(name, seconds):
        def gather():
            time.sleep(seconds)
            return name

        gather.__name__ = name
        return fact()(gather)

    def first(slow):
        yield finding("slow")

    def second(quick):
        yield finding("quick")

    results, _ = run(
        plan(
            registry(sleeper("slow", 0.2), sleeper("quick", 0), declare("DEMO001", first), declare("DEMO002", second)), ["all"]
        ),
        {},
    )
    assert [result.code for result in results] == ["DEMO001", "DEMO002"]


def test_a_slow_fact_is_named_after_two_seconds():
    @fact(timeout=10)
    def sluggish():
        time.sleep(2.6)

    said = []
    run(plan(registry(sluggish, declare("DEMO001", lambda sluggish: [])), ["all"]), {}, notice=said.append)
    assert said == ["still waiting for sluggish"]


def test_a_hanging_fact_does_not_hold_the_process():
    program = textwrap.dedent(
        '''
        import time
        from verl_doctor.api import check, fact
        from verl_doctor.planner import plan
        from verl_doctor.registry import Registry
        from verl_doctor.runner import run

        @fact(timeout=0.2)
        def hanging():
            time.sleep(60)

        @check("DEMO001", "demo", tags={"demo"}, good=[{}], bad=[{}])
        def demo(hanging):
            """Something is wrong.

            It matters.

            Fix: do something.
            """
            return []

        registry = Registry()
        registry.add(hanging.__declared__)
        registry.add(demo.__declared__)
        print(run(plan(registry, ["all"]), {})[0][0].state)
        '''
    )
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "skip"
    assert time.monotonic() - begun < 10


def test_severity_of_a_finding_overrides_that_of_the_code():
    def mild(base):
        yield finding("mild", severity=Severity.INFO)

    results, _ = run(plan(registry(base, declare("DEMO001", mild)), ["all"]), {})
    assert results[0].severity is Severity.INFO
    assert exit_status(results) == 0
    assert exit_status(results, fail_on=Severity.INFO) == 1
