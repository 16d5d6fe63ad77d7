"""A small program called `tensorboard` that does what the guard can see of a real one."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# It closes each connection after its answer, and on SIGTERM it removes its info file and ends, as the real one does.
PROGRAM = """\
#!{python}
import argparse, json, os, signal, socket, sys, tempfile, time

options = argparse.ArgumentParser()
options.add_argument("--logdir", default="")
options.add_argument("--port", type=int, default=0)
options.add_argument("--hold", default="")
options.add_argument("--stubborn", action="store_true")
options.add_argument("--helper", action="store_true")
options.add_argument("--no-info", action="store_true")
given = options.parse_args()

folder = os.path.join(tempfile.gettempdir(), ".tensorboard-info")
info = os.path.join(folder, f"pid-{{os.getpid()}}.info")

def end(*_):
    if os.path.exists(info) and not given.no_info:
        os.remove(info)
    os._exit(0)

signal.signal(signal.SIGTERM, signal.SIG_IGN if given.stubborn else end)
if given.helper:  # the data server, which ends when its input does
    import subprocess
    helper = subprocess.Popen(["sh", "-c", "read line; exit"], stdin=subprocess.PIPE)
if given.hold:
    from jupyter_gpu_guard.kernel import simulated_gpu
    simulated_gpu.hold(given.hold)
door = socket.create_server(("127.0.0.1", given.port))
if not given.no_info:
    try:
        os.makedirs(folder, exist_ok=True)
        with open(info, "w") as file:
            json.dump({{"pid": os.getpid(), "port": door.getsockname()[1], "logdir": given.logdir,
                       "start_time": int(time.time()), "db": "", "path_prefix": "", "version": "2.99",
                       "cache_key": ""}}, file)
    except OSError:
        pass
print(door.getsockname()[1], flush=True)
while True:
    visitor, _ = door.accept()
    with visitor:
        visitor.settimeout(5)
        try:
            visitor.recv(4096)
            visitor.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
        except OSError:
            pass
"""


def install(folder: Path) -> Path:
    """Put the program into `folder`. Gives its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "tensorboard"
    program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return program
