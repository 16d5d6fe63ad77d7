"""Is this command line a TensorBoard, and what does it show? Pure.

Only the log directory and the port are kept. The rest of a command line may hold secrets and goes no further.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_MODULES = {"tensorboard", "tensorboard.main"}
_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}  # options of Python that take the next word as well
_INSTALLED_IN = {"site-packages", "dist-packages"}  # elsewhere a file of that name is somebody's own
_UNDER_ANOTHER_NAME = ["tensorboard", "main.py"], ["tensorboard", "__main__.py"]


class Told(NamedTuple):
    """What a command line says of a TensorBoard. Port None: it has chosen or will choose by itself."""

    log_dir: str
    port: int | None


def read_command(argv: list[str]) -> Told | None:
    """What the command line tells, if it is a TensorBoard's. None: it is something else."""
    arguments = _arguments(argv)
    if arguments is None or arguments[:1] == ["dev"]:  # `tensorboard dev` uploads and serves nothing
        return None
    log_dir, port = "", None
    for name, value in _options(arguments):
        if name in ("logdir", "logdir_spec"):
            log_dir = without_secrets(value)
        elif name == "port" and value.isascii() and value.isdigit():
            port = int(value) or None
    return Told(log_dir, port)


def without_secrets(log_dir: str) -> str:
    """The log directory without the user and password that a URL may hold."""
    if "://" not in log_dir or "@" not in log_dir:
        return log_dir
    try:
        url = urlsplit(log_dir)
    except ValueError:
        return ""
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()


def _arguments(argv: list[str]) -> list[str] | None:
    """What follows the program in the command line of a TensorBoard. None: it is none."""
    if not argv:
        return None
    program = _name(argv[0])
    if program == "tensorboard":
        return argv[1:]
    if program not in _SHELLS and not _PYTHON.fullmatch(program):
        return None
    words = iter(enumerate(argv[1:], 1))
    for place, word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word.startswith("-m"):
            module = word[2:] or (argv[place + 1] if place + 1 < len(argv) else "")
            return argv[place + (1 if word[2:] else 2) :] if module in _MODULES else None
        elif word.startswith("-c"):
            return None
        elif not word.startswith("-"):
            return argv[place + 1 :] if _is_script(word) else None
    return None


def _is_script(path: str) -> bool:
    """Whether a file that is executed is TensorBoard: its console script, or a part of its installed package."""
    above, *script = path.split("/")[-3:]
    return _name(path) == "tensorboard" or (above in _INSTALLED_IN and script in _UNDER_ANOTHER_NAME)


def _options(arguments: list[str]) -> list[tuple[str, str]]:
    """`--name value` and `--name=value`, each with its value; `-` and `_` are the same in a name."""
    found = []
    for place, word in enumerate(arguments):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals:
                value = arguments[place + 1] if place + 1 < len(arguments) else ""
            found.append((name.replace("-", "_"), value))
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]
