"""Memory that stays after the work: failed cells, pools, ranks, what restarts and deaths leave behind, nobody's."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.driver import GpuProgram, StandIn

from .lab import GPU, QUICK_POLICY, Kernel, Lab, quoted, start_ticks, until

GIB = 2**30


def _codes(holder: Any) -> list[str]:
    return [reason["code"] for reason in holder["verdict"]["reasons"]]


def _reason(holder: Any, code: str) -> Any:
    return next(reason for reason in holder["verdict"]["reasons"] if reason["code"] == code)


def _leftover_pids(lab: Lab, kernel_id: str) -> list[int]:
    holder = lab.holder(kernel_id)
    return sorted(process["pid"] for process in holder["leftovers"]) if holder else []


def _child(folder: Path, what: str) -> str:
    """Code that starts a child which does `what` and then sleeps, deaf to signals; prints its pid when it is ready."""
    path = folder / f"child-{abs(hash(what))}.py"
    path.write_text(
        "import signal, time\n" + GPU + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"signal.signal(signal.SIGINT, signal.SIG_IGN)\n{what}\nprint('ready', flush=True); time.sleep(600)\n"
    )
    return (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, {str(path)!r}], start_new_session=True, stdout=-1)\n"
        "child.stdout.readline(); print(child.pid)"
    )


def test_who_holds_what_after_the_work(lab: Lab, driver: StandIn) -> None:
    """A failed cell is named as the reason; a pool is shown in full; ranks that spin on are told and never ended."""
    failed, pool, ranks = (lab.start_kernel(f"{name}.ipynb") for name in ("failed", "pool", "ranks"))
    late = lab.start_kernel("late.ipynb")
    hidden = GpuProgram(driver.folder)
    try:
        hidden.run("gpu.hold('12 GiB', 1)")
        driver.fault("1 hide_procs 1")
        born = start_ticks(hidden.pid)

        pool.run(GPU + "gpu.hold('40 GiB')\ngpu.compute(80, 4)")
        code = (
            "import multiprocessing as mp, time\n"
            "def rank(n):\n"
            "    gpu.hold('8 GiB'); n and gpu.compute(30, None); n and time.sleep(600)\n"
            "runs = [mp.get_context('fork').Process(target=rank, args=(n,)) for n in range(4)]\n"
            "for run in runs: run.start()\n"
            "runs[0].join(); print(*(run.pid for run in runs[1:]))"
        )
        alive = {int(pid) for pid in ranks.run(GPU + code).split()}
        failed.begin(GPU + "gpu.hold('6 GiB')\ngpu.compute(90, 2, wait=True)\n1 / 0")
        row = until(lambda: (h := lab.holder(failed.id)) and h["failed"] and h, "the failed cell to be seen")
        seen_failed = datetime.fromisoformat(lab.report()["taken_at"])
        assert row["state"] == "idle"

        # What another notebook would need is held by one with a name.
        refusal = "try: gpu.hold('60 GiB')\nexcept gpu.OutOfMemoryError as error: print(error)"
        assert "out of memory" in late.run(GPU + refusal)
        row = until(lambda: (h := lab.holder(pool.id)) and h["idle_seconds"] and h, "the pool to come to rest")
        assert row["memory_bytes"] == 40 * GIB
        assert (row["notebook"], row["holdings"][0]["evidence"]) == ("pool.ipynb", "process")

        # Warned eight seconds after the failure, and not before.
        notice = until(lambda: lab.notice(failed.id), "the failed cell's warning")
        assert datetime.fromisoformat(notice["given_at"]) >= seen_failed - timedelta(seconds=2) + timedelta(seconds=8)
        assert "last-cell-failed" in _codes(lab.holder(failed.id))
        assert "sys.last_" in _reason(lab.holder(failed.id), "last-cell-failed")["text"]

        # The ranks' sum is the notebook's; told, without a deadline; nobody ends them.
        hint = until(lambda: lab.notice(ranks.id), "the word about the ranks")
        assert (hint["next_action"], hint["deadline"]) == (None, None)
        holder = lab.holder(ranks.id)
        assert (holder["state"], holder["memory_bytes"]) == ("idle", 24 * GIB)
        assert {process["pid"] for process in holder["holdings"][0]["processes"]} == alive
        facts = _reason(holder, "run-ended")["facts"]
        assert (facts["processes"], facts["memory_bytes"]) == (3, 24 * GIB)

        # The driver lists nobody on the other device: nobody's memory, charged to nobody.
        device = lab.report()["devices"][1]
        assert device["memory_unattributed_bytes"] == 12 * GIB
        assert all(len(holder["holdings"]) <= 1 for holder in lab.report()["holders"])

        until(lambda: lab.outcome(pool.id) and lab.outcome(failed.id), "the idle ones to be ended")
        assert lab.outcome(failed.id)["result"] == "done"
        assert lab.outcome(ranks.id) is None
        assert all(start_ticks(pid) is not None for pid in (*alive, ranks.pid))
        assert start_ticks(hidden.pid) == born
    finally:
        hidden.bury()


def test_what_restarts_and_deaths_leave_behind(lab: Lab, tmp_path: Path) -> None:
    """Shown under the notebook at once and for as long as it holds, charged to no kernel, ended by a person alone."""
    restarted, killed = lab.start_kernel("restarted.ipynb"), lab.start_kernel("killed.ipynb")
    child = int(restarted.run(_child(tmp_path, "gpu.hold('3 GiB')")))
    code = (
        "import multiprocessing as mp\n"
        "def work(n):\n"
        "    import os, time\n"
        "    os.setsid()  # whoever stays in the kernel's group is killed with it by Jupyter\n"
        "    from jupyter_gpu_guard.kernel import simulated_gpu as gpu\n"
        "    gpu.hold('1 GiB'); time.sleep(600)\n"
    )
    module = tmp_path / "lab/root/works.py"
    module.write_text(code, encoding="utf-8")
    start = (
        "import works, multiprocessing as mp\n"
        "context = mp.get_context('forkserver')\n"
        "runs = [context.Process(target=works.work, args=(n,)) for n in range(4)]\n"
        "for run in runs: run.start()\n"
        "print(*(run.pid for run in runs))"
    )
    workers = sorted(int(pid) for pid in killed.run(start).split())
    left: list[int] = []
    try:
        until(lambda: (h := lab.holder(killed.id)) and h["memory_bytes"] == 4 * GIB, "the workers to be seen")
        until(lambda: (h := lab.holder(restarted.id)) and h["memory_bytes"] == 3 * GIB, "the child to be seen")

        assert lab.request("POST", f"api/kernels/{restarted.id}/restart")[0] == 200
        os.kill(killed.pid, signal.SIGKILL)
        left = [child, *workers]
        until(lambda: _leftover_pids(lab, restarted.id) == [child], "the child to be left behind")
        until(lambda: _leftover_pids(lab, killed.id) == workers, "the workers to be left behind")

        row = lab.holder(restarted.id)
        assert (row["memory_bytes"], row["died"]) == (0, False)
        assert _reason(row, "left-behind")["facts"] == {"processes": 1, "memory_bytes": 3 * GIB, "died": 0}
        row = until(lambda: (h := lab.holder(killed.id)) and h["died"] and h, "the death to be told")
        assert row["memory_bytes"] == 0
        assert _reason(row, "left-behind")["facts"] == {"processes": 4, "memory_bytes": 4 * GIB, "died": 1}
        assert "died" in _reason(row, "left-behind")["text"]

        until(lambda: (h := lab.holder(killed.id)) and h["state"] == "idle", "the kernel to be there again")
        time.sleep(15)  # longer than the rule's limit for what is held
        assert _leftover_pids(lab, killed.id) == workers
        assert _leftover_pids(lab, restarted.id) == [child]
        assert lab.outcome(killed.id) is None
        assert all(start_ticks(pid) is not None for pid in left)

        # It is a holder of its own, warned about without a deadline, until a person ends it.
        owner = f"leftovers:{restarted.id}"
        row = next(h for h in lab.report()["holders"] if h["owner"] == owner)
        assert (row["kind"], row["state"], row["memory_bytes"]) == ("leftovers", "dead", 3 * GIB)
        assert (row["notebook"], row["offers"]) == ("restarted.ipynb", ["shutdown"])
        notice = until(lambda: next((n for n in lab.report()["notices"] if n["owner"] == owner), None), "a warning")
        assert (notice["next_action"], notice["deadline"]) == (None, None)
        status, outcome = lab.request("POST", f"gpu-guard/api/v1/owners/{quoted(owner)}/shutdown")
        assert (status, outcome["result"], outcome["freed_bytes"]) == (200, "done", 3 * GIB)
        assert start_ticks(child) is None
        assert restarted.id in lab.kernel_ids()
        assert all(start_ticks(pid) is not None for pid in workers)
    finally:
        for pid in (child, *workers):
            if start_ticks(pid) is not None:
                os.kill(pid, signal.SIGKILL)


def test_a_rule_ends_what_was_left_behind(tmp_path: Path, driver: StandIn) -> None:
    """After its warning and the whole notice, deaf as it is; the kernel of today and what it holds are not touched."""
    policy = QUICK_POLICY + "rules:\n  - {name: left-behind, match: {owner: leftovers}, idle: {for: 8s}}\n"
    policy += "  - {name: kernels, match: {owner: kernel}, keep: true}\n"
    with Lab(tmp_path / "lab", driver=driver, policy=policy) as lab:
        kernel = lab.start_kernel("a.ipynb")
        child = int(kernel.run(_child(tmp_path, "gpu.hold('3 GiB')")))
        try:
            until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"] == 3 * GIB, "the child to be seen")
            assert lab.request("POST", f"api/kernels/{kernel.id}/restart")[0] == 200
            owner = f"leftovers:{kernel.id}"

            def told(what: str) -> Any:
                return next((each for each in lab.report()[what] if each["owner"] == owner), None)

            notice = until(lambda: told("notices"), "the warning")
            assert (notice["rule"], notice["next_action"]) == ("left-behind", "shutdown")
            outcome = until(lambda: told("outcomes"), "the end")
            assert (outcome["result"], outcome["freed_bytes"], outcome["by"]) == ("done", 3 * GIB, None)
            assert (outcome["notebook"], outcome["survivors"]) == ("a.ipynb", [])
            assert datetime.fromisoformat(outcome["at"]) >= datetime.fromisoformat(notice["deadline"])
            assert start_ticks(child) is None
            assert kernel.id in lab.kernel_ids()
            until(lambda: not any(h["leftovers"] for h in lab.report()["holders"]), "nothing to be left behind")
        finally:
            if start_ticks(child) is not None:
                os.kill(child, signal.SIGKILL)


def test_kernels_of_a_server_that_was_killed_are_left_behind(tmp_path: Path, driver: StandIn) -> None:
    """A kernel behind a wrapper outlives its server; the next one shows them as its notebook's, and ends neither."""
    wrapped = tmp_path / "lab/data/kernels/wrapped"
    wrapped.mkdir(parents=True)
    (wrapped / "kernel.json").write_text(
        f'{{"argv": ["bash", "-c", "{sys.executable} -m ipykernel_launcher -f {{connection_file}}; true"],'
        ' "display_name": "Wrapped", "language": "python"}'
    )
    first = Lab(tmp_path / "lab", driver=driver)
    with first:
        kernel = first.start_kernel("wrapped.ipynb", kernelspec="wrapped")
        kernel.run(GPU + "gpu.hold('4 GiB')")
        row = until(lambda: (h := first.holder(kernel.id)) and h["memory_bytes"] and h, "the row")
        inner = row["holdings"][0]["processes"][0]["pid"]
        assert (row["memory_bytes"], inner) == (4 * GIB, kernel.pid)
        wrapper = _parent(inner)
        assert _parent(wrapper) == first.pid
        os.kill(first.pid, signal.SIGKILL)
        try:
            _shown_as_left_behind(tmp_path, driver, kernel)
            assert all(start_ticks(pid) is not None for pid in (inner, wrapper))
        finally:
            for pid in (wrapper, inner):
                if start_ticks(pid) is not None:
                    os.kill(pid, signal.SIGKILL)


def _shown_as_left_behind(tmp_path: Path, driver: StandIn, kernel: Kernel) -> None:
    with Lab(tmp_path / "lab", driver=driver) as second:

        def found() -> Any:
            return [h for h in second.report()["holders"] if h["leftovers"]]

        (holder,) = until(found, "what the first server left behind")
        assert (holder["name"], holder["state"]) == ("wrapped.ipynb", "dead")
        assert [process["pid"] for process in holder["leftovers"]] == [kernel.pid]
        time.sleep(12)  # longer than the rule's limit
        assert second.report()["outcomes"] == []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
