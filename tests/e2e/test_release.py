"""A whole server over the driver's stand-in: release by a rule and from the notebook, and a kernel's last words."""

from __future__ import annotations

from pathlib import Path

from tests.driver import StandIn

from .lab import Lab, until

FRAMEWORKS = Path(__file__).parents[1] / "support" / "frameworks"
TORCH = f"import sys; sys.path.insert(0, {str(FRAMEWORKS)!r})\nimport torch\n"

POLICY = """\
version: 1
mode: enforce
defaults:
  idle: {compute_below: 5%, memory_above: 512MiB, for: 8s}
  notice: 20s
  undelivered: 20s
  ladder: [{do: warn}, {do: release, after: 4s}, {do: shutdown, after: 20s}]
"""


def test_a_rule_releases_first_and_what_still_holds_memory_is_ended_after_saving(
    tmp_path: Path, driver: StandIn
) -> None:
    """The cache comes back without the kernel's end; what is only cached is spared, what variables hold is not."""
    with Lab(tmp_path / "lab", driver=driver, policy=POLICY) as lab:
        spared = lab.start_kernel("spared.ipynb")
        ended = lab.start_kernel("ended.ipynb")
        spared.run(TORCH + "batch = torch.zeros(3 * 2**30)\ndel batch")
        ended.run(
            TORCH + "model = torch.zeros(2 * 2**30)\nbatch = torch.zeros(3 * 2**30)\ndel batch\n"
            "import jupyter_gpu_guard\n"
            "def save(): open('model.txt', 'w').write('saved')\n"
            "jupyter_gpu_guard.on_shutdown(save)"
        )
        until(lambda: lab.holder(ended.id) and lab.holder(ended.id)["memory_bytes"], "the row")
        used = {kernel["id"]: kernel["last_activity"] for kernel in lab.get("api/kernels")}

        def released(kernel_id: str) -> dict[str, object] | None:
            outcomes = lab.report()["outcomes"]
            return next((o for o in outcomes if (o["owner"], o["action"]) == (f"kernel:{kernel_id}", "release")), None)

        for kernel in (spared, ended):
            outcome = until(lambda kernel=kernel: released(kernel.id), "the release")
            assert (outcome["result"], outcome["freed_bytes"]) == ("done", 3 * 2**30), outcome
        assert {kernel["id"]: kernel["last_activity"] for kernel in lab.get("api/kernels")} == used
        last = until(
            lambda: (o := lab.outcome(ended.id)) and o["action"] == "shutdown" and o,
            "the end of what still holds memory",
        )
        assert last["result"] == "done", last
        assert "before that, save was called" in last["detail"]
        assert (lab.root / "model.txt").read_text() == "saved"
        assert spared.id in lab.kernel_ids()
        assert spared.run("print(6 * 7)") == "42"


def test_the_notebook_asks_its_own_guard(tmp_path: Path, driver: StandIn) -> None:
    """`%gpu_guard` says what the command line says, keeps, and never shows the token."""
    with Lab(tmp_path / "lab", driver=driver, policy=None) as lab:
        kernel = lab.start_kernel("asking.ipynb")
        kernel.run(TORCH + "model = torch.zeros(2 * 2**30)\n%load_ext jupyter_gpu_guard")
        until(lambda: lab.holder(kernel.id) and lab.holder(kernel.id)["memory_bytes"], "the row")
        said = kernel.run("%gpu_guard")
        assert "2.2 GiB" in said, said
        said += (kept := kernel.run("%gpu_guard keep 1h 30m waiting for the data"))
        assert kept.startswith("Kept until")
        lease = lab.holder(kernel.id)["lease"]
        assert lease["reason"] == "waiting for the data"
        assert "waiting for the data" in kernel.run("%gpu_guard")
        said += (refused := kernel.run("%gpu_guard keep 100h"))
        assert "longer than the limit" in refused
        assert lab.token not in said
