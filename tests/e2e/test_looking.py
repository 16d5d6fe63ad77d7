"""Looking is not using: whoever polls the guard moves nobody's last activity."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.driver import StandIn

from .browser import open_page, open_panel
from .lab import GPU, Lab, until

SECONDS = 60
CLIENTS = 20


def _activity(lab: Lab) -> tuple[str, dict[str, str]]:
    # `no_track_activity`: this very look must not count either.
    kernels = lab.get("api/kernels?no_track_activity=1")
    server = lab.get("api/status?no_track_activity=1")["last_activity"]
    return server, {kernel["id"]: kernel["last_activity"] for kernel in kernels}


@pytest.mark.browser
@pytest.mark.slow
def test_a_minute_of_polling_by_everybody_is_no_activity(tmp_path: Path, driver: StandIn) -> None:
    """The sidebar, the command line and 20 clients look for a minute: neither the server nor a kernel was used."""
    with Lab(tmp_path / "lab", driver=driver, policy=None) as lab:
        kernel = lab.start_kernel("quiet.ipynb")
        kernel.run(GPU + "gpu.hold('2 GiB')")
        until(lambda: (h := lab.holder(kernel.id)) and h["memory_bytes"], "the row")
        kernel.close()
        with open_page(lab, "lab") as page:
            open_panel(page)
            # JupyterLab itself asks for kernels and sessions, and that counts; so the page asks nothing but ours.
            page.route(lambda url: "/api/" in url and "gpu-guard" not in url, lambda route: route.abort())
            page.wait_for_timeout(3000)  # what was under way arrives
            before = _activity(lab)
            calls = lab.health()["ticks"]
            end = time.monotonic() + SECONDS

            def client(number: int) -> int:
                looked = 0
                while time.monotonic() < end:
                    for path in ("report", "health", f"explain/kernel%3A{kernel.id}"):
                        assert lab.request("GET", f"gpu-guard/api/v1/{path}")[0] == 200
                    looked += 1
                    time.sleep(1 + number / CLIENTS)
                return looked

            shown = []
            page.on("response", lambda response: shown.append(response.url))
            with ThreadPoolExecutor(CLIENTS) as pool:
                looks = pool.map(client, range(CLIENTS))
                while time.monotonic() < end:
                    command = [sys.executable, "-m", "jupyter_gpu_guard", "status", "--json"]
                    subprocess.run(command, env=lab.environment(), check=True, capture_output=True, timeout=60)
                    page.wait_for_timeout(2000)
                assert min(looks) > 5
            assert sum("gpu-guard/api/v1/report" in url for url in shown) > 5
            assert lab.health()["ticks"] > calls + 10
            assert _activity(lab) == before
