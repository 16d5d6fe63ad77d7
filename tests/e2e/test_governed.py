"""A person without root under a policy of the site: a real server as that person, with a machine's own /etc/jupyter."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.driver import StandIn

from .lab import GPU, QUICK_POLICY, Lab, quoted, until

USER, GROUP = 54321, 54322
# The right to read keeps the interpreter within reach, wherever it lies; it is none to write.
BECOME = f"""\
mount -t overlay overlay -o lowerdir=/etc,upperdir="$1/etc",workdir="$1/work" /etc
shift
exec setpriv --reuid={USER} --regid={GROUP} --clear-groups \
  --inh-caps=+dac_read_search --ambient-caps=+dac_read_search -- "$@"
"""


def _prefix(folder: Path) -> tuple[str, ...]:
    """A command that runs a command as the person, on a machine whose /etc is what `folder` adds to it."""
    return ("unshare", "--mount", "--fork", "sh", "-ec", BECOME, "sh", str(folder))


def _can_be(folder: Path) -> bool:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return False
    tried = subprocess.run([*_prefix(folder), "true"], capture_output=True, check=False, timeout=60)
    return tried.returncode == 0


def _give(folder: Path) -> None:
    """Make everything in it the person's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, GROUP, follow_symlinks=False)


def test_the_sites_policy_holds_whatever_its_user_writes(tmp_path: Path, driver: StandIn) -> None:
    """Neither a file of their own nor an option switches it off; a kernel is ended by the site's rule all the same."""
    machine = tmp_path / "machine"
    site = machine / "etc" / "jupyter" / "gpu-guard" / "policy.d" / "site.yaml"
    site.parent.mkdir(parents=True)
    (machine / "work").mkdir()
    site.write_text(QUICK_POLICY + "rules: [{name: site, match: {owner: kernel}, keep: {longest: 1h}}]\n", "utf-8")
    if not _can_be(machine):
        pytest.skip("no other user, or no mount namespace, can be had here")
    own = QUICK_POLICY.replace("enforce", "observe").replace("for: 8s", "for: never")
    lab = Lab(
        tmp_path / "lab",
        policy=own,
        driver=driver,
        options=("--GpuGuard.mode=observe", "--GpuGuard.cull_idle_timeout=0"),
        prefix=_prefix(machine),
    )
    _give(lab.folder)
    _give(driver.folder)
    with lab:
        policy = lab.get("gpu-guard/api/v1/policy")
        assert policy["mode"] == "enforce"
        assert policy["source"] == "/etc/jupyter/gpu-guard/policy.d/site.yaml"
        assert f"{lab.folder}/policy.yaml:2:7: the site's policy is in mode enforce" in policy["fault"]
        assert "`idle.for` is looser here" in policy["fault"]
        kernel = lab.start_kernel("idle.ipynb")
        assert kernel.run("import os; print(os.geteuid())") == str(USER)
        kernel.run(GPU + "gpu.hold('2 GiB')")
        keep = f"gpu-guard/api/v1/owners/{quoted('kernel:' + kernel.id)}/keep"
        assert lab.request("POST", keep, {"seconds": 2 * 3600, "beyond_limits": True})[0] in (400, 403)

        # Tightened by its user, without a restart: then it is taken.
        (lab.folder / "policy.yaml").write_text(
            "version: 1\ndefaults: {idle: {for: 7s}}\n"
            "rules: [{name: mine, match: {owner: terminal}, idle: {for: 6s}}]\n",
            encoding="utf-8",
        )
        policy = until(lambda: (p := lab.get("gpu-guard/api/v1/policy"))["fault"] is None and p, "the mended file")
        limits = {rule["name"]: rule["settings"]["idle.for_seconds"] for rule in policy["rules"]}
        assert limits == {"site": 7, "mine": 6, "default": 7}

        outcome = until(lambda: lab.outcome(kernel.id), "the shutdown")
        assert (outcome["result"], outcome["rule"]) == ("done", "site")
