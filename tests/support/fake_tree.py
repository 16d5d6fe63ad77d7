"""A /proc and /sys of a machine that is not this one, from one text file; a test changes single files of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

TREES = Path(__file__).parents[1] / "sources" / "trees"


class FakeTree:
    """The files of `trees/NAME.tree` under `root`. `proc` and `sys` are what a source takes for the real ones."""

    def __init__(self, root: Path, name: str) -> None:
        self.proc = root / "proc"
        self.sys = root / "sys"
        self._root = root
        self.proc.mkdir(parents=True)
        self.sys.mkdir()
        path, lines = None, list[str]()
        for line in [*(TREES / f"{name}.tree").read_text(encoding="utf-8").splitlines(keepends=True), "== \n"]:
            if line.startswith(("== ", "-> ")):
                if path:
                    self.write(path, "".join(lines))
                lines.clear()
                path = line.split()[1] if line.startswith("== ") and line != "== \n" else None
                if line.startswith("-> "):
                    _, link, target = line.split()
                    self.link(link, target)
            else:
                lines.append(line)

    def write(self, path: str, text: str) -> None:
        """Make `path` hold `text`."""
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def link(self, path: str, target: str) -> None:
        """Make `path` a link; where it leads need not exist."""
        link = self._root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def read(self, path: str) -> str:
        """What `path` holds."""
        return (self._root / path).read_text(encoding="utf-8")

    def set(self, pid: int, key: str, value: str) -> None:
        """Let every fdinfo of `pid` that has `key` say `value`; where none has it, each gets it."""
        files = [file for file in (self.proc / str(pid) / "fdinfo").iterdir() if "drm-driver" in file.read_text()]
        having = [file for file in files if f"{key}:" in file.read_text()]
        for file in having or files:
            text = re.sub(rf"^{re.escape(key)}:.*\n", "", file.read_text(), flags=re.MULTILINE)
            file.write_text(f"{text}{key}:\t{value}\n")

    def end(self, pid: int) -> None:
        """The process is gone."""
        shutil.rmtree(self.proc / str(pid))

    def close(self, pid: int, descriptor: int) -> None:
        """The process has closed one descriptor."""
        (self.proc / f"{pid}/fd/{descriptor}").unlink()
        (self.proc / f"{pid}/fdinfo/{descriptor}").unlink()
