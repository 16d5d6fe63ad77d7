"""Other ways than a page to tell people: a real command, a real web server, a real mail server."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fake_clock import NOON
from listeners import Hookroom, Mailroom, hookroom, mailroom

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
from jupyter_gpu_guard.core.policy import Action, Site
from jupyter_gpu_guard.core.verdict import Code, Outcome, Reason, Result, Verdict
from jupyter_gpu_guard.effects.farewell import say_farewell
from jupyter_gpu_guard.effects.tellers import NotToldError
from jupyter_gpu_guard.effects.tellers.command import CommandTeller
from jupyter_gpu_guard.effects.tellers.mail import Letterbox, MailTeller
from jupyter_gpu_guard.effects.tellers.message import Writer
from jupyter_gpu_guard.effects.tellers.webhook import WebhookTeller

ROOT = ProcessKey(4242, 77)
OWNER = Owner(OwnerKey(OwnerKind.KERNEL, "abc"), "a.ipynb", ROOT, OwnerState.IDLE, notebook="lectures/a.ipynb")
HOLDER = Holder(OWNER, (Holding("GPU-1", (GpuProcess(ROOT, "GPU-1", 6 * 2.0**30, 0.0, NOON),)),), (ROOT,))
IDLE = Reason(
    Code.IDLE_TOO_LONG,
    {
        "idle_seconds": 9000.0,
        "for_seconds": 7200.0,
        "memory_bytes": 6 * 2.0**30,
        "compute_percent": 0.0,
        "compute_below_percent": 5.0,
    },
)
WARNING = Verdict(OWNER.key, ROOT, Action.WARN, "students", (IDLE,), next_action=Action.SHUTDOWN, deadline=1900.0)
DONE = Outcome(
    OWNER.key,
    ROOT,
    Action.SHUTDOWN,
    "students",
    Result.DONE,
    NOON,
    "freed 6.0 GiB on GPU 0 in 2.1 s",
    notebook="lectures/a.ipynb",
    name="a.ipynb",
    freed_bytes=6 * 2.0**30,
)
WRITER = Writer(Site(user="anna"), link=lambda: "https://hub.example.org/user/anna/")
DEADLINE = NOON + timedelta(minutes=15)
MESSAGE = WRITER.warning(WARNING, HOLDER, NOON, DEADLINE)


def told_by(teller, message=MESSAGE):
    """What came of one try: None, or why it did not work."""

    async def scene():
        try:
            await teller.tell(message)
        except NotToldError as refusal:
            return str(refusal)
        return None

    return asyncio.run(scene())


def python(code: str, *words: object) -> list[str]:
    """A command that runs `code`."""
    return [sys.executable, "-I", "-S", "-c", code, *map(str, words)]


def _shown(certificate: Path) -> ssl.SSLContext:
    """What a server needs to show it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, with its key, that nobody has signed."""
    file = tmp_path / "self.pem"
    names = ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*command, "-keyout", file, "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    return file


# ---- what is told ----


def test_a_warning_is_told_with_its_facts_and_in_a_sentence() -> None:
    """Who, how much, why, by which rule, and what comes when; nothing that a command line could say."""
    assert MESSAGE.whole == {
        "version": 1,
        "about": "warning",
        "owner": "kernel:abc",
        "kind": "kernel",
        "name": "a.ipynb",
        "notebook": "lectures/a.ipynb",
        "user": "anna",
        "server": None,
        "link": "https://hub.example.org/user/anna/",
        "rule": "students",
        "memory_bytes": 6 * 2.0**30,
        "next_action": "shutdown",
        "given_at": NOON.isoformat(),
        "deadline": DEADLINE.isoformat(),
        "reasons": ["idle-too-long"],
        "text": "a.ipynb of anna: Holds 6.0 GiB with less than 5 % compute for 2 h 30 min; the limit is 2 h. "
        "It is shut down in 15 min, at 2030-05-01 12:15 UTC, unless it is used or kept. "
        "https://hub.example.org/user/anna/",
    }


def test_without_names_nobody_learns_how_a_notebook_is_called() -> None:
    """Neither from the facts nor from the sentence."""
    writer = Writer(Site(user="anna"), names=False)
    for message in (writer.warning(WARNING, HOLDER, NOON, DEADLINE), writer.outcome(DONE)):
        assert "a.ipynb" not in json.dumps({**message.whole, "title": message.title})
        assert message.text.startswith("A kernel of anna")


def test_without_names_functions_are_not_named_either() -> None:
    """What a person has registered for the end of a kernel bears names of theirs, and so do their errors."""
    told = {"done": ["save_x"], "failed": [["upload_x", "ErrorX"]], "left": ["mail_x", "tidy_x"]}
    detail = f"freed 6.0 GiB in 2 s; {say_farewell(told)}"
    outcome = replace(DONE, detail=detail)
    assert "save_x" in WRITER.outcome(outcome).text
    assert Writer(Site(), names=False).outcome(outcome).facts["detail"] == (
        "freed 6.0 GiB in 2 s; before that, what was registered was called; what was registered for its end failed; "
        "there was no time for all that was registered"
    )


def test_a_hint_says_that_nothing_follows_and_unknown_memory_is_no_number() -> None:
    """No deadline, no next action, null and not 0."""
    message = WRITER.warning(WARNING, replace(HOLDER, unknown=Unknown(Why.NOT_READ)), NOON, None)
    assert (message.facts["deadline"], message.facts["next_action"], message.facts["memory_bytes"]) == (None,) * 3
    assert "Nothing follows by itself." in message.text


@pytest.mark.parametrize("result", [Result.DONE, Result.FAILED])
@pytest.mark.parametrize("action", [Action.RELEASE, Action.PARK, Action.SHUTDOWN])
def test_an_outcome_is_told_as_it_was(action: Action, result: Result) -> None:
    """A failure is not told as a success."""
    message = WRITER.outcome(replace(DONE, action=action, result=result))
    assert message.facts["result"] == result.value
    assert ("could not be dealt with" in message.text) is (result is Result.FAILED)
    assert "freed 6.0 GiB" in message.text


def test_a_name_cannot_break_out_of_its_line() -> None:
    """Line ends, escapes and half characters become spaces."""
    owner = replace(OWNER, name="a\r\nBcc: b\x1b[2J\udcff.ipynb", notebook="x\ny")
    message = WRITER.warning(WARNING, replace(HOLDER, owner=owner), NOON, DEADLINE)
    assert all(letter.isprintable() for letter in message.text + message.title)
    assert message.facts["notebook"] == "x y"


# ---- a command ----


def test_a_command_gets_the_message_on_its_standard_input(tmp_path: Path) -> None:
    """As JSON; exit status 0 is success."""
    target = tmp_path / "told.json"
    command = python("import sys; open(sys.argv[1], 'w').write(sys.stdin.read())", target)
    assert told_by(CommandTeller(command)) is None
    assert json.loads(target.read_text()) == MESSAGE.whole


def test_a_command_that_reads_nothing_and_says_much_is_fine() -> None:
    """Neither a closed pipe nor a full one holds it up."""
    large = replace(MESSAGE, text="x" * 500_000)
    assert told_by(CommandTeller(python("print('x' * 5_000_000)")), large) is None


def test_a_command_that_fails_is_shown_by_status_and_the_beginning_of_its_words() -> None:
    """Not more than 500 characters, on one line."""
    why = told_by(CommandTeller(python("print('no\\nway\\x1b' + 'x' * 900); raise SystemExit(3)")))
    assert why.startswith("exit status 3: no way?xxx")
    assert len(why) < 550
    assert told_by(CommandTeller(["/no/such/command"])) == "it cannot be started (No such file or directory)"


def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    """No process of its group is left, and other groups are not touched."""
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(os.getpid(), child.pid, file=open(sys.argv[1] + '.new', 'w'), flush=True)\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)"
    )

    async def scene() -> list[int]:
        telling = asyncio.create_task(CommandTeller(python(code, pids), timeout=60).tell(MESSAGE))
        await _until(pids.exists)
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
        found = [int(pid) for pid in pids.read_text().split()]
        await _until(lambda: not any(_lives(pid) for pid in found))
        return found

    assert len(asyncio.run(scene())) == 2
    why = told_by(CommandTeller(python("import time; time.sleep(600)"), timeout=0.5))
    assert why == "it was not over within 0.5 s, and was killed"


def test_the_place_of_a_command_is_its_name_alone() -> None:
    """Its words may hold a secret, and so may its folder."""
    assert CommandTeller(["/home/anna/bin/tell", "--token", "hunter2"]).place == "tell"


# ---- a webhook ----


def _posted(*answers: int, timeout: float = 20.0, silent: bool = False, message=MESSAGE):
    async def scene():
        async with hookroom(*answers, silent=silent) as room:
            try:
                await WebhookTeller(room.url, timeout).tell(message)
            except NotToldError as refusal:
                return str(refusal), room
            return None, room

    return asyncio.run(scene())


def test_a_webhook_gets_the_message_as_json() -> None:
    """With a text in which the name is set as code."""
    why, room = _posted()
    assert why is None
    assert room.posts == [{**MESSAGE.whole, "text": MESSAGE.text.replace("a.ipynb", "`a.ipynb`", 1)}]


def test_a_name_calls_nobody_in_a_chat() -> None:
    """`<!channel>` is escaped, and `@all` stays within its quotes."""
    owner = replace(OWNER, name="`@all` <!channel> & co")
    _, room = _posted(message=WRITER.warning(WARNING, replace(HOLDER, owner=owner), NOON, DEADLINE))
    assert room.posts[0]["text"].startswith("`'@all' &lt;!channel&gt; &amp; co` of anna:")


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_any_status_but_a_good_one_is_a_failure(status: int) -> None:
    """A redirect too, and it is not followed."""
    why, room = _posted(status)
    assert why == f"it answers with status {status}"
    assert (len(room.posts), room.elsewhere) == (1, [])


def test_a_webhook_that_does_not_answer_is_given_up() -> None:
    """After its time, and nothing of its address is said."""
    assert _posted(timeout=0.5, silent=True)[0] == "no answer within 0.5 s"
    why = told_by(WebhookTeller("http://127.0.0.1:1/secret"))
    assert "refused" in why
    assert "secret" not in why


def test_a_webhook_without_a_good_certificate_learns_nothing(certificate: Path) -> None:
    """Whoever pretends to be the host is told nothing."""

    async def scene() -> Hookroom:
        async with hookroom(encrypted=_shown(certificate)) as room:
            with pytest.raises(NotToldError, match="Cert"):
                await WebhookTeller(room.url, 20).tell(MESSAGE)
            return room

    assert asyncio.run(scene()).posts == []


@pytest.mark.parametrize("url", ["", "ftp://example.org/x", "file:///etc/passwd", "https://", "hooks.example.org"])
def test_only_web_addresses_are_webhooks(url: str) -> None:
    """Anything else is refused at once."""
    with pytest.raises(ValueError, match="http"):
        WebhookTeller(url)


def test_what_is_not_encrypted_leaves_this_machine_never() -> None:
    """The address is a secret, and the message names notebooks: http:// is for the machine itself."""
    for host in ("hooks.example.org", "10.0.0.7", "localhost.example.org", "0.0.0.0", "[2001:db8::1]"):
        with pytest.raises(ValueError, match="must begin with https://"):
            WebhookTeller(f"http://{host}/x")
    for host in ("localhost:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:1"):
        assert WebhookTeller(f"http://{host}/x").place in host


def test_the_place_of_a_webhook_is_its_host_alone() -> None:
    """Path, query, user and password are secrets."""
    teller = WebhookTeller("https://anna:pw@hooks.example.org/services/T0/B0/xyz?token=1")
    assert (teller.place, "xyz" in repr(teller)) == ("hooks.example.org", False)


# ---- an e-mail ----


def _posted_to(timeout: float = 20.0, message=MESSAGE, security: str = "none", **how):
    async def scene():
        async with mailroom(**how) as room:
            box = Letterbox("127.0.0.1", room.port, security)
            try:
                await MailTeller(box, "anna@example.org", "guard@example.org", timeout).tell(message)
            except NotToldError as refusal:
                return str(refusal), room
            return None, room

    return asyncio.run(scene())


def test_a_letter_is_taken_by_a_mail_server() -> None:
    """To one person, with a subject, marked as written by a machine."""
    why, room = _posted_to()
    assert why is None
    ((sender, recipients, text),) = room.letters
    assert (sender, recipients) == ("guard@example.org", ["anna@example.org"])
    assert "Subject: GPU Guard: a.ipynb: GPU memory held without compute" in text
    assert "Auto-Submitted: auto-generated" in text
    assert "2030-05-01 12:15 UTC" in text


def test_a_name_adds_no_line_to_a_letters_head() -> None:
    """Nor another recipient."""
    owner = replace(OWNER, name="a\r\nBcc: eve@example.org")
    why, room = _posted_to(message=WRITER.warning(WARNING, replace(HOLDER, owner=owner), NOON, DEADLINE))
    assert why is None
    assert room.letters[0][1] == ["anna@example.org"]
    assert "\nBcc" not in room.letters[0][2]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"refuse": "MAIL"}, "SMTPSenderRefused, the server answers 550"),
        ({"refuse": "RCPT"}, "SMTPRecipientsRefused"),
        ({"refuse": "DATA"}, "SMTPDataError, the server answers 550"),
        ({"silent": True, "timeout": 0.5}, "no answer within 0.5 s"),
        ({"security": "starttls"}, "SMTPNotSupportedError"),
    ],
)
def test_a_letter_that_is_not_taken_is_a_failure(how: dict, why: str) -> None:
    """With the kind of refusal and no words of others; without encryption where it is asked for nothing is sent."""
    said, room = _posted_to(**how)
    assert said.startswith(why)
    assert "anna" not in said
    assert room.letters == []


@pytest.mark.parametrize("is_known", [True, False])
def test_a_login_goes_to_a_server_that_shows_a_good_certificate(certificate, monkeypatch, is_known: bool) -> None:
    """And to no other: then nothing is sent at all."""
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def scene() -> tuple[str | None, Mailroom]:
        async with mailroom(auth=True, encrypted=_shown(certificate)) as room:
            box = Letterbox("127.0.0.1", room.port, "ssl", "anna", "hunter2")
            try:
                await MailTeller(box, "anna@example.org", "guard@example.org", 20).tell(MESSAGE)
            except NotToldError as refusal:
                return str(refusal), room
            return None, room

    why, room = asyncio.run(scene())
    assert (why is None) is is_known
    assert room.logins == (["\0anna\0hunter2"] if is_known else [])
    assert len(room.letters) == is_known
    assert "hunter2" not in str(why)


@pytest.mark.parametrize("to", ["", "anna", "anna@", "@example.org", "a@b.org, eve@c.org", "a@b.org\nBcc: c@d.org"])
def test_what_is_not_one_address_is_refused(to: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match="address"):
        MailTeller(Letterbox("127.0.0.1", 25, "none"), to, "guard@example.org")


def test_a_letterbox_does_not_show_its_password() -> None:
    """Not even in a traceback."""
    assert "hunter2" not in repr(Letterbox("h", 25, "ssl", "anna", "hunter2"))


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - as the kernel has it
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def _until(holds) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("waited in vain")
