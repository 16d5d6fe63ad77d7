"""A warning that nobody can see waits for somebody, and is given anew once a page is open."""

from __future__ import annotations

from pathlib import Path

import websocket

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, TOKEN, Kernel, Lab, start_ticks, until

PATIENT = QUICK_POLICY.replace("undelivered: 12s", "undelivered: 10m")


def _page(lab: Lab, address: str) -> websocket.WebSocket:
    url = lab.url.replace("http", "ws", 1) + address
    return websocket.create_connection(url, timeout=20, header={"Authorization": f"token {TOKEN}"})


def _hold(kernel: Kernel) -> None:
    kernel.run(GPU + "gpu.hold('3 GiB')")


def test_a_warning_waits_for_somebody_to_come(driver: StandIn, tmp_path: Path) -> None:
    """A client of the kernel alone sees no warning; with the first page it comes again, with the whole notice."""
    with Lab(tmp_path / "lab", driver=driver, policy=PATIENT) as lab:
        kernel = lab.start_kernel("alone.ipynb")
        client = _page(lab, f"api/kernels/{kernel.id}/channels")
        _hold(kernel)
        first = until(lambda: lab.notice(kernel.id), "the warning")
        assert (first["undelivered"], first["reached"]) == (True, [])
        until(lambda: lab.report()["taken_at"] > first["given_at"], "a look after it")
        ticks = lab.health()["ticks"]
        until(lambda: lab.health()["ticks"] > ticks + 15, "more looks than the notice has seconds")
        assert start_ticks(kernel.pid) is not None
        again = lab.notice(kernel.id)
        assert again["id"] == first["id"]
        codes = [reason["code"] for reason in lab.holder(kernel.id)["verdict"]["reasons"]]
        assert "undelivered" in codes

        page = _page(lab, "api/events/subscribe")
        second = until(lambda: (n := lab.notice(kernel.id)) and not n["undelivered"] and n, "the second warning")
        assert second["reached"] == ["page"]
        assert second["id"] != first["id"]
        assert first["given_at"] < second["given_at"] < second["deadline"] < first["deadline"]
        outcome = until(lambda: lab.outcome(kernel.id), "the shutdown")
        assert outcome["result"] == "done"
        assert outcome["at"] >= second["deadline"]
        told = [entry["detail"] for entry in lab.get("gpu-guard/api/v1/audit")["entries"] if entry["kind"] == "warned"]
        assert told == ["it has reached nobody so far", "reached somebody by page"]
        page.close()
        client.close()
