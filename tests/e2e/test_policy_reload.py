"""A policy that changes under a real server: taken, refused, or kept waiting until a person accepts it."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, TOKEN, Lab, start_ticks, until

SLOW = QUICK_POLICY.replace("for: 8s", "for: 9h")


class Changing:
    """A server whose policy file is edited."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.file = lab.folder / "policy.yaml"

    def write(self, text: str) -> None:
        """As an editor does: a new file in the place of the old one."""
        new = self.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.file)

    def policy(self) -> Any:
        """The rules in force."""
        return self.lab.get("gpu-guard/api/v1/policy")

    def accept(self, body: Any) -> tuple[int, Any]:
        """POST policy/accept."""
        return self.lab.request("POST", "gpu-guard/api/v1/policy/accept", body)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`jupyter gpu-guard` in a shell of the server's user."""
        return subprocess.run(
            [sys.executable, "-m", "jupyter_gpu_guard", *words],
            env=self.lab.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def limit(policy: Any) -> float:
    """Seconds for which something must be idle, by the last rule."""
    return policy["rules"][-1]["settings"]["idle.for_seconds"]


def test_an_edited_policy_is_taken_and_a_broken_one_is_not(tmp_path: Path, driver: StandIn) -> None:
    """Without a restart; a mistake is shown with its place, and its mending takes it away; idle time counts on."""
    with Lab(tmp_path / "lab", policy=SLOW, driver=driver) as lab:
        changing = Changing(lab)
        kernel = lab.start_kernel("idle.ipynb")
        kernel.run(GPU + "gpu.hold('2 GiB')")
        first = changing.policy()
        assert (limit(first), first["fault"], first["pending"]) == (9 * 3600, None, None)
        assert lab.report()["policy"]["hash"] == first["hash"]

        changing.write(SLOW.replace("enforce", "enforced"))
        fault = until(lambda: changing.policy()["fault"], "the fault")
        assert f"{changing.file}:2:7" in fault
        assert changing.policy()["hash"] == first["hash"]
        assert lab.report()["policy"]["fault"] == fault
        assert fault in lab.health()["problems"]
        assert lab.report()["mode"] == "enforce"
        assert "did you mean 'enforce'?" in changing.command("status").stdout.replace("\n", " ")

        changing.write(QUICK_POLICY)
        until(lambda: limit(changing.policy()) == 8, "the mended policy")
        assert changing.policy()["fault"] is None
        notice = until(lambda: lab.notice(kernel.id), "the warning")
        assert notice["rule"] == "default"

        changing.write(QUICK_POLICY.replace("enforce", "observe"))
        until(lambda: lab.report()["mode"] == "observe", "the mode")
        assert lab.report()["notices"] == []
        ticks = lab.health()["ticks"]
        until(lambda: lab.health()["ticks"] > ticks + 15, "the time in which it would have ended")
        assert start_ticks(kernel.pid) is not None
        assert lab.log.read_text().count("enforced") == 1


def test_a_policy_that_would_end_many_waits_for_a_person(tmp_path: Path, driver: StandIn) -> None:
    """Every face says so, nothing is ended, and one word of a person puts it in force, with a warning first."""
    with Lab(tmp_path / "lab", policy=SLOW, driver=driver) as lab:
        changing = Changing(lab)
        kernels = [lab.start_kernel(f"{n}.ipynb") for n in range(2)]
        for kernel in kernels:
            kernel.run(GPU + "gpu.hold('2 GiB')")
        until(lambda: all((lab.holder(k.id) or {}).get("idle_seconds", 0) > 9 for k in kernels), "them to be idle")
        assert changing.command("policy", "accept").returncode == 1

        changing.write(QUICK_POLICY)
        waits = until(lambda: changing.policy()["pending"], "the policy to wait")
        assert {touched["name"] for touched in waits["touched"]} == {"0.ipynb", "1.ipynb"}
        assert waits["holders"] == 2
        assert limit(changing.policy()) == 9 * 3600
        assert lab.report()["policy"]["pending"]["hash"] == waits["hash"]
        assert any(waits["hash"] in problem for problem in lab.health()["problems"])
        assert waits["hash"] in changing.command("status").stdout
        assert lab.report()["notices"] == []

        assert changing.accept({"hash": "other"})[0] == 409
        assert changing.accept({"digest": waits["hash"]})[0] == 400
        for headers in ({}, {"Cookie": f"token={TOKEN}"}):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(
                    urllib.request.Request(
                        f"{lab.url}gpu-guard/api/v1/policy/accept", b'{"hash": ""}', headers, method="POST"
                    ),
                    timeout=30,
                )
            assert refusal.value.code == 403
            refusal.value.close()
        assert changing.policy()["pending"] is not None

        done = changing.command("policy", "accept", "--yes")
        assert (done.returncode, done.stderr) == (0, "")
        assert "0.ipynb" in done.stdout
        assert limit(changing.policy()) == 8
        assert changing.policy()["pending"] is None
        notices = until(lambda: len(found := lab.report()["notices"]) == 2 and found, "the warnings")
        for notice in notices:
            ident = notice["owner"].partition(":")[2]
            outcome = until(lambda ident=ident: lab.outcome(ident), "the shutdown")
            assert outcome["at"] >= notice["deadline"]
        assert changing.accept({"hash": waits["hash"]})[0] == 409
