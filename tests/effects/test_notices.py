"""What people are told: events that hold to their schemas, and lines in the log."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from fake_clock import NOON, FakeClock
from jsonschema.exceptions import ValidationError
from jupyter_events import EventLogger
from shutdown_scene import LOG

from jupyter_gpu_guard.core.model import (
    GpuProcess,
    Holder,
    Holding,
    Owner,
    OwnerKey,
    OwnerKind,
    OwnerState,
    ProcessKey,
    Unknown,
    Why,
)
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.core.verdict import Code, Outcome, Reason, Result, Survivor, Verdict
from jupyter_gpu_guard.effects.notices import NOTICE, OUTCOME, SCHEMAS, Notices, silence

ROOT = ProcessKey(4242, 77)
OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "abc"), "a.ipynb", ROOT, OwnerState.IDLE, notebook="lectures/a.ipynb")
HOLDER = Holder(OWNER, (Holding("GPU-1", (GpuProcess(ROOT, "GPU-1", 6 * 2.0**30, 0.0, NOON),)),), (ROOT,))
WARNING = Verdict(
    OWNER.key,
    ROOT,
    Action.WARN,
    "students",
    (Reason(Code.IDLE_TOO_LONG, {"idle_seconds": 9000.0}),),
    next_action=Action.SHUTDOWN,
    deadline=1900.0,
    notice=900.0,
)
OUTCOME_OF_IT = Outcome(
    OWNER.key,
    ROOT,
    Action.SHUTDOWN,
    "asked",
    Result.DONE,
    NOON,
    "freed 6.0 GiB on GPU 0 in 2.1 s",
    reasons=(Reason(Code.ASKED, {"by": "anna"}),),
    notebook="lectures/a.ipynb",
    name="a.ipynb",
    by="anna",
    freed_bytes=6 * 2.0**30,
    took_seconds=2.1,
    survivors=(Survivor(ROOT, "GPU-1", "D"), Survivor(ROOT, "GPU-2", "D")),
)


class Ear:
    """Listens to both events of an event logger, as an open tab does."""

    def __init__(self, events):
        self.heard = []
        for schema in SCHEMAS:
            events.add_listener(schema_id=schema, listener=self.listen)

    async def listen(self, logger, schema_id, data):
        """Note what came, as JSON."""
        self.heard.append((schema_id, json.loads(json.dumps(data))))


class FakeHooks:
    """Hooks that note what they are to tell, and work when they are told to."""

    def __init__(self):
        self.warnings = []
        self.outcomes = []

    def warned(self, verdict, holder, deadline, delivered):
        """Note it."""
        self.warnings.append((verdict, deadline, delivered))

    def ended(self, outcome):
        """Note it."""
        self.outcomes.append(outcome)


class FakeDoorbell:
    """Whether a page is open, as a test says."""

    def __init__(self):
        self.there = False

    def __call__(self):
        """Whether there is one now."""
        return self.there


def told(act, *, events=None, page_is_open=lambda: True, hooks=silence):
    """What `act` returns, and every event that was heard."""

    async def scene():
        logger = events or EventLogger()
        notices = Notices(logger, LOG, FakeClock(), page_is_open, hooks)
        ear = Ear(logger)
        result = act(notices)
        await logger.gather_listeners()
        return result, ear.heard

    return asyncio.run(scene())


def test_a_warning_is_an_event_with_a_deadline_and_the_reasons():
    """Everything a face needs, and nothing from inside the notebook."""
    outcome, heard = told(lambda notices: notices.warn(WARNING, HOLDER))
    assert outcome.result is Result.DONE
    assert outcome.action is Action.WARN
    assert heard == [
        (
            NOTICE,
            {
                "owner": "kernel:abc",
                "name": "a.ipynb",
                "notebook": "lectures/a.ipynb",
                "rule": "students",
                "action": "warn",
                "next_action": "shutdown",
                "given_at": NOON.isoformat(),
                "deadline": (NOON + timedelta(seconds=900)).isoformat(),
                "memory_bytes": 6 * 2.0**30,
                "reasons": ["idle-too-long"],
            },
        )
    ]


def test_the_deadline_told_is_never_closer_than_the_full_notice():
    """A verdict whose deadline has come close meanwhile: the notice begins when the warning is given."""
    _, heard = told(lambda notices: notices.warn(replace(WARNING, deadline=1100.0), HOLDER))
    assert heard[0][1]["deadline"] == (NOON + timedelta(seconds=900)).isoformat()
    _, heard = told(lambda notices: notices.warn(replace(WARNING, deadline=3000.0), HOLDER))
    assert heard[0][1]["deadline"] == (NOON + timedelta(seconds=2000)).isoformat()


def test_a_warning_that_nothing_follows_says_so():
    """No deadline and no next action."""
    _, heard = told(lambda notices: notices.warn(replace(WARNING, deadline=None, next_action=None), HOLDER))
    assert heard[0][1]["deadline"] is None
    assert heard[0][1]["next_action"] is None


def test_memory_that_is_not_known_is_null_and_never_0():
    """The event says that it does not know."""
    holder = replace(HOLDER, unknown=Unknown(Why.NOT_READ))
    outcome, heard = told(lambda notices: notices.warn(WARNING, holder))
    assert outcome.result is Result.DONE
    assert heard[0][1]["memory_bytes"] is None


def test_an_outcome_is_an_event_with_what_was_seen():
    """Result, figures, each surviving pid once, and who asked."""
    _, heard = told(lambda notices: notices.announce(OUTCOME_OF_IT))
    assert heard == [
        (
            OUTCOME,
            {
                "owner": "kernel:abc",
                "name": "a.ipynb",
                "notebook": "lectures/a.ipynb",
                "rule": "asked",
                "action": "shutdown",
                "result": "done",
                "at": NOON.isoformat(),
                "by": "anna",
                "detail": "freed 6.0 GiB on GPU 0 in 2.1 s",
                "freed_bytes": 6 * 2.0**30,
                "took_seconds": 2.1,
                "survivors": [4242],
                "reasons": ["asked"],
            },
        )
    ]


@pytest.mark.parametrize("result", [Result.DONE, Result.ALREADY_GONE, Result.WITHDRAWN, Result.FAILED, Result.UNSUITED])
def test_every_result_of_an_act_has_a_word_in_the_schema(result):
    """None of them is refused by the event logger."""
    bare = replace(OUTCOME_OF_IT, result=result, freed_bytes=None, took_seconds=None, notebook=None, by=None)
    _, heard = told(lambda notices: notices.announce(bare))
    assert [data["result"] for _, data in heard] == [result.value]


def test_an_event_that_cannot_go_out_is_a_failure_to_warn(caplog):
    """Nobody was warned, so nothing may follow: FAILED, and one line in the log."""
    events = EventLogger()

    def refuse(schema_id, data):
        raise RuntimeError("disk full")

    def act(notices):
        events.add_modifier(schema_id=NOTICE, modifier=refuse)
        return notices.warn(WARNING, HOLDER)

    outcome, heard = told(act, events=events)
    assert outcome.result is Result.FAILED
    assert heard == []
    assert "could not be published" in outcome.detail
    assert [record.levelname for record in caplog.records if record.name == LOG.name] == ["WARNING"]


def test_an_outcome_that_cannot_go_out_is_no_fault_of_the_act():
    """The act has happened; telling it never raises."""
    events = EventLogger()

    def refuse(schema_id, data):
        raise RuntimeError("disk full")

    def act(notices):
        events.add_modifier(schema_id=OUTCOME, modifier=refuse)
        notices.announce(OUTCOME_OF_IT)

    _, heard = told(act, events=events)
    assert heard == []


def test_each_act_is_one_line_in_the_log(caplog):
    """With owner and rule, without the notebook's path."""
    told(lambda notices: notices.warn(WARNING, HOLDER))
    told(lambda notices: notices.announce(OUTCOME_OF_IT))
    lines = [record.getMessage() for record in caplog.records if record.name == LOG.name]
    for record, words in zip(lines, (["students", "6.0 GiB", "shutdown at"], ["asked", "done"]), strict=True):
        assert "kernel:abc" in record
        assert "lectures" not in record
        assert all(word in record for word in words)


def test_schemas_that_are_registered_already_stay(monkeypatch):
    """The server's extension may have done it before."""
    events = EventLogger()
    for path in SCHEMAS.values():
        events.register_event_schema(path)
    _, heard = told(lambda notices: notices.warn(WARNING, HOLDER), events=events)
    assert len(heard) == 1


@pytest.mark.parametrize("schema", list(SCHEMAS))
def test_the_schemas_are_closed_and_explain_every_property(schema):
    """Each property has a description and is required; anything else is refused."""
    events = EventLogger()
    events.register_event_schema(SCHEMAS[schema])
    registered = events.schemas.get(schema)
    assert registered.id == schema
    assert registered.version == "1"
    for name, property_ in registered.properties.items():
        assert property_["description"].strip(), name
    assert sorted(registered._schema["required"]) == sorted(registered.properties)
    _, heard = told(
        lambda notices: notices.warn(WARNING, HOLDER) if schema == NOTICE else notices.announce(OUTCOME_OF_IT)
    )
    event = heard[0][1]
    events.schemas.validate_event(schema, event)
    for wrong in ({**event, "code": "print(1)"}, {k: v for k, v in event.items() if k != "owner"}):
        with pytest.raises(ValidationError):
            events.schemas.validate_event(schema, wrong)


def test_a_warning_is_delivered_where_a_page_is_open():
    """Then the outcome says by which way, and the hooks are told all the same, with the deadline."""
    hooks = FakeHooks()
    outcome, _ = told(lambda notices: notices.warn(WARNING, HOLDER), hooks=hooks)
    assert (outcome.reached, outcome.undelivered) == (("page",), False)
    assert [(verdict, deadline) for verdict, deadline, _ in hooks.warnings] == [
        (WARNING, NOON + timedelta(seconds=900))
    ]


@pytest.mark.parametrize(("wait", "deadline"), [(3600.0, NOON + timedelta(hours=1)), (None, None)])
def test_without_a_page_a_warning_is_not_delivered(wait, deadline):
    """The event says when the loss comes if it stays so; whom a hook reaches is told the full notice from now."""
    hooks = FakeHooks()
    verdict = replace(WARNING, undelivered=wait)
    outcome, heard = told(lambda n: (n.warn(verdict, HOLDER), n.reaches(OWNER.key)), page_is_open=bool, hooks=hooks)
    assert outcome[0].result is Result.DONE
    assert (outcome[0].reached, outcome[0].undelivered, outcome[1]) == ((), True, False)
    assert heard[0][1]["deadline"] == (deadline and deadline.isoformat())
    assert "nobody could be told" in outcome[0].detail
    assert hooks.warnings[0][1] == NOON + timedelta(seconds=900)


def test_a_hook_that_works_delivers_the_warning_and_is_not_asked_twice():
    """Over fifty looks each warning goes to the hooks once, also when it is given anew."""
    hooks, door = FakeHooks(), FakeDoorbell()

    def act(notices):
        first = notices.warn(WARNING, HOLDER)
        assert not any(notices.reaches(OWNER.key) for _ in range(50))
        hooks.warnings[0][2]("webhook")
        assert all(notices.reaches(OWNER.key) for _ in range(50))
        second = notices.warn(replace(WARNING, repeated=True), HOLDER)
        door.there = True
        third = notices.warn(replace(WARNING, repeated=True), HOLDER)
        return first.reached, second.reached, third.reached

    reached, heard = told(act, page_is_open=door, hooks=hooks)
    assert reached == ((), ("webhook",), ("page", "webhook"))
    assert (len(heard), len(hooks.warnings)) == (3, 1)


def test_a_new_warning_goes_to_the_hooks_again_and_an_old_delivery_does_not_count_for_it():
    """Somebody has worked meanwhile: what a slow hook delivers now is not this warning."""
    hooks = FakeHooks()

    def act(notices):
        notices.warn(WARNING, HOLDER)
        notices.warn(WARNING, HOLDER)
        hooks.warnings[0][2]("command")
        before = notices.reaches(OWNER.key)
        hooks.warnings[1][2]("command")
        return before, notices.reaches(OWNER.key)

    assert told(act, page_is_open=bool, hooks=hooks)[0] == (False, True)


def test_a_page_that_opens_is_reached():
    """Whether or not a hook has worked."""
    door = FakeDoorbell()

    def act(notices):
        notices.warn(WARNING, HOLDER)
        before, door.there = notices.reaches(OWNER.key), True
        return before, notices.reaches(OWNER.key)

    assert told(act, page_is_open=door)[0] == (False, True)


def test_a_warning_that_could_not_be_published_goes_to_no_hook():
    """It is tried again as a whole."""
    events, hooks = EventLogger(), FakeHooks()

    def refuse(schema_id, data):
        raise RuntimeError("disk full")

    def act(notices):
        events.add_modifier(schema_id=NOTICE, modifier=refuse)
        return notices.warn(WARNING, HOLDER)

    assert told(act, events=events, hooks=hooks)[0].result is Result.FAILED
    assert hooks.warnings == []


def test_hooks_are_told_once_what_a_rule_has_done():
    """Not what a person asked for, nor what did not happen; a failure that repeats only once."""
    hooks = FakeHooks()
    done = replace(OUTCOME_OF_IT, by=None, rule="students")
    failed = replace(done, result=Result.FAILED)

    def act(notices):
        for outcome in (
            OUTCOME_OF_IT,
            replace(done, result=Result.WITHDRAWN),
            replace(done, result=Result.UNSUITED),
            *(failed, failed, failed),
            done,
            failed,
        ):
            notices.announce(outcome)

    told(act, hooks=hooks)
    assert hooks.outcomes == [failed, done, failed]
