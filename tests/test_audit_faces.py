"""The audit over REST and on the command line: all that is one's own; names of others for an administrator."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner
from jupyter_server.auth.authorizer import Authorizer
from server_room import server_room
from tornado.httpclient import HTTPClientError

from jupyter_gpu_guard.cli import main
from jupyter_gpu_guard.core.entry import Entry, Kind
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind, ProcessKey
from jupyter_gpu_guard.core.policy import Action, Mode
from jupyter_gpu_guard.core.verdict import Code, Lease, Outcome, Reason, Result, Verdict
from jupyter_gpu_guard.history.audit import FileAudit
from jupyter_gpu_guard.server.audit import SOMEBODY

NOW = datetime.now(timezone.utc)
KEY = OwnerKey(OwnerKind.KERNEL, "k")
IDLE = Reason(
    Code.IDLE_TOO_LONG,
    {
        "idle_seconds": 9000,
        "for_seconds": 7200,
        "memory_bytes": 2**33,
        "compute_percent": 0,
        "compute_below_percent": 5,
    },
)
VERDICT = Verdict(KEY, ProcessKey(4711, 99), Action.SHUTDOWN, "students", (IDLE,))
OUTCOME = Outcome(
    KEY, VERDICT.root, Action.SHUTDOWN, "students", Result.DONE, NOW - timedelta(hours=2),
    "freed 8.0 GiB on GPU 0 in 0.3 s", VERDICT.reasons, "w/a.ipynb", "a.ipynb", freed_bytes=2.0**33, took_seconds=0.3,
)  # fmt: skip


def note(kind: Kind, hours_ago: float, **more: object) -> Entry:
    """An entry so many hours ago."""
    at = NOW - timedelta(hours=hours_ago)
    return replace(Entry(kind, at, Mode.ENFORCE, "abc", KEY, "a.ipynb", "w/a.ipynb"), **more)


def written(folder: Path, server: str = "") -> None:
    """One cull, one keep, one that was spared, of an earlier server."""
    lease = Lease(KEY, NOW, "rebuttal", "bert")
    leased = Verdict(
        KEY, VERDICT.root, Action.KEEP, "students",
        (Reason(Code.LEASED, {"until": NOW.isoformat(), "reason": "rebuttal", "by": "bert"}),),
    )  # fmt: skip
    audit = FileAudit(folder, server=server)
    audit.record(note(Kind.KEPT, 30, lease=lease, by="bert"))
    audit.record(note(Kind.SPARED, 29, verdict=leased))
    audit.record(note(Kind.WARNED, 3, verdict=replace(VERDICT, action=Action.WARN), deadline=NOW, clients=2))
    audit.record(note(Kind.BEGUN, 2, verdict=VERDICT, act="one"))
    audit.record(note(Kind.OUTCOME, 2, verdict=VERDICT, outcome=OUTCOME, act="one"))
    audit.record(note(Kind.POLICY, 1, owner=None, name="", notebook=None, detail="from /etc/site.yaml"))
    audit.close(60)


class FakeAuthorizer(Authorizer):
    """Everybody may use the guard, and nobody is an administrator."""

    def is_authorized(self, handler, user, action, resource) -> bool:
        """Whether it is not about the administrator's resource."""
        return resource != "gpu_guard:admin"


def test_a_new_server_shows_what_was_done_before(tmp_path):
    """The report has the outcomes of the last day of the same folder, and the audit all entries, filtered as asked."""

    async def play():
        root = tmp_path / "root"
        root.mkdir()
        written(root / ".gpu-guard/audit", str(root))
        async with server_room(root) as room:
            await room.app.web_app.settings["jupyter_gpu_guard"]._recall()
            (outcome,) = (await room.ask("GET", "gpu-guard/api/v1/report"))["outcomes"]
            assert (outcome["result"], outcome["notebook"], outcome["freed_bytes"]) == ("done", "w/a.ipynb", 2**33)
            everything = await room.ask("GET", "gpu-guard/api/v1/audit")
            assert [entry["kind"] for entry in everything["entries"]][:6] == [
                *("kept", "spared", "warned", "begun", "outcome", "policy")
            ]
            ended = everything["entries"][4]
            assert ended["processes"] == [{"pid": 4711, "start_ticks": 99}]
            assert ended["reasons"][0]["facts"]["idle_seconds"] == 9000
            lately = await room.ask("GET", "gpu-guard/api/v1/audit?since=4h&owner=w/a.ipynb")
            assert [entry["kind"] for entry in lately["entries"]] == ["warned", "begun", "outcome"]
            none = await room.ask("GET", "gpu-guard/api/v1/audit?owner=kernel:other")
            assert none["entries"] == []
            with pytest.raises(HTTPClientError) as refusal:
                await room.ask("GET", "gpu-guard/api/v1/audit?since=yesterday")
            assert refusal.value.code == 400
            assert b"7d" in refusal.value.response.body

    asyncio.run(play())


def test_names_of_other_people_are_for_the_administrator(tmp_path):
    """Without that right neither who kept it nor what for is told, wherever it stands; nor about files of the site."""

    async def play():
        root = tmp_path / "root"
        root.mkdir()
        written(root / ".gpu-guard/audit", str(root))
        async with server_room(root) as room:
            everything = await room.ask("GET", "gpu-guard/api/v1/audit")
            assert {"bert", "rebuttal"} <= {everything["entries"][0]["by"], everything["entries"][0]["kept_because"]}
            room.app.web_app.settings["authorizer"] = FakeAuthorizer()
            told = await room.ask("GET", "gpu-guard/api/v1/audit")
            assert len(told["entries"]) == len(everything["entries"])
            assert "bert" not in json.dumps(told)
            assert "rebuttal" not in json.dumps(told)
            assert told["entries"][0]["by"] == SOMEBODY
            assert "/etc/site.yaml" in json.dumps(everything)
            assert "/etc/site.yaml" not in json.dumps(told)

    asyncio.run(play())


class FakeHubAuthorizer(Authorizer):
    """Allows everything to everybody who may come in, as JupyterHub's own does, and is called like that one."""

    __module__ = "jupyterhub.singleuser.extension"
    __qualname__ = "JupyterHubAuthorizer"

    def is_authorized(self, handler, user, action, resource) -> bool:
        """Whatever it is about."""
        return True


@pytest.mark.parametrize("governed", [True, False])
def test_who_may_everything_is_no_administrator_where_the_site_governs(tmp_path, governed):
    """An authorizer that tells nobody apart makes no administrators; on one's own machine one is one's own."""

    async def play():
        root = tmp_path / "root"
        root.mkdir()
        written(root / ".gpu-guard/audit", str(root))
        async with server_room(root) as room:
            room.app.web_app.settings["authorizer"] = FakeHubAuthorizer()
            room.app.web_app.settings["jupyter_gpu_guard"].is_governed = governed
            told = await room.ask("GET", "gpu-guard/api/v1/audit")
            assert (told["entries"][0]["by"] == SOMEBODY) is governed

    asyncio.run(play())


def test_the_command_reads_a_folder_without_a_server(tmp_path):
    """Why it was ended, and why it was not, in words; an act with an outcome is one row."""
    written(tmp_path)
    result = CliRunner().invoke(main, ["audit", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "shutdown: done (freed 8.0 GiB on GPU 0 in 0.3 s)" in result.output
    assert "not ended" in result.output
    assert "kept until" in result.output
    assert "2 pages connected" in result.output
    assert "begun" not in result.output
    assert "the limit is 2 h" in result.output


def test_the_command_gives_json(tmp_path):
    """The entries as over REST, only those asked for."""
    written(tmp_path)
    result = CliRunner().invoke(main, ["audit", "--folder", str(tmp_path), "--json", "--since", "4h"])
    told = json.loads(result.output)
    assert [entry["kind"] for entry in told["entries"]] == ["warned", "begun", "outcome", "policy"]
    assert (told["left_out"], told["unreadable"], told["errors"]) == (0, 0, [])
    result = CliRunner().invoke(main, ["audit", "--folder", str(tmp_path), "--json", "--owner", "other.ipynb"])
    assert json.loads(result.output)["entries"] == []


def test_without_a_server_the_own_folder_is_read(tmp_path, monkeypatch):
    """What was written down is there for its user although nothing runs."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    assert "Nothing was written down" in CliRunner().invoke(main, ["audit"]).output
    written(tmp_path / "data/gpu-guard/audit")
    assert "freed 8.0 GiB" in CliRunner().invoke(main, ["audit"]).output


def test_a_folder_that_cannot_be_read_is_a_sentence(tmp_path):
    """And so is a time that is none."""
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit/2030-01-01.x-1.jsonl").mkdir()
    result = CliRunner().invoke(main, ["audit", "--folder", str(tmp_path / "audit")])
    assert (result.exit_code, "cannot be read" in result.output) == (1, True)
    result = CliRunner().invoke(main, ["audit", "--since", "soon"])
    assert (result.exit_code, "2026-11-30T08:00Z" in result.output) == (1, True)
