"""Sentences that effects and sources have made, as codes with facts, so that a face can say them in its own language.

Whoever acts or looks says what it found in plain English: that goes to the log, to the audit and to hooks as it is, and
is read back from the audit years later. Here each clause that is known is told by its template; one that is not has no
code, and is shown as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from jupyter_gpu_guard.core.verdict import Fact

# In a template, what a name ends in says what stands there: an amount, a span, a number, or any words.
OUTCOMES: Mapping[str, str] = {
    "ended-in": "ended in {took_seconds} s",
    "ended": "ended",
    "freed-in": "freed {freed_bytes} in {took_seconds} s",
    "ended-by-itself": "it had ended by itself",
    "ended-meanwhile": "it ended meanwhile",
    "ended-or-restarted": "it had ended or was restarted meanwhile",
    "free-again": "{freed_bytes} are free again",
    "not-verified": "could not verify that its GPU memory is free: the devices did not answer",
    "not-all-verified": "could not verify that its GPU memory is free: not every device answered",
    "not-listed": "the driver lists none of its processes any more",
    "held-nothing": "it held no GPU memory",
    "one-left-alone": "1 process that it had started, without GPU memory, left alone",
    "left-alone": "{process_count} processes that it had started, without GPU memory, left alone",
    "ended-but-held": "ended, but {held_bytes} still held by {who}",
    "freed-but-held": "freed {freed_bytes} in {took_seconds} s, but {held_bytes} still held by {who}",
    "by-itself-but-held": "it had ended by itself, but {held_bytes} still held by {who}",
    "free-but-held": "{freed_bytes} are free again, but {held_bytes} still held by {who}",
    "ran-in-server": "it ran within the server's own process, so nothing could be verified",
    "ran-elsewhere": "it did not run here, so nothing could be verified",
    "restarted-or-unknown": "it has been restarted since, or its process is not known any more",
    "restarted": "it has been restarted since",
    "process-unknown": "its process is not known",
    "state-unknown": "what it does is not known any more",
    "used-since": "it has been used since",
    "devices-silent": "the devices could not be read just before",
    "processes-silent": "its processes could not be read just before",
    "computes-again": "it computes again",
    "executes-again": "it is executing again",
    "not-idle-any-more": "it is not idle any more",
    "looked-at": "somebody is looking at it",
    "started-something": "it has started something since",
    "kept-at-last": "it was kept at the last moment",
    "too-slow": "Jupyter has not shut it down within {limit_seconds} s",
    "refused": "Jupyter could not shut it down ({kind}; the server's log says more)",
    "nothing-else-done": "nothing else was done to it",
    "nothing-done": "nothing was done",
    "failed": "it failed ({kind}; the server's log says more)",
    "does-not-end": "its process, pid {pid}, does not end",
    "would-warn": "mode observe: would have warned",
    "would-release": "mode observe: would have had it give back what its frameworks keep",
    "would-park": "mode observe: would have parked it",
    "would-shut-down": "mode observe: would have shut it down",
    "gave-back": "gave back {freed_bytes} of {held_bytes}",
    "gave-back-by-count": "gave back {freed_bytes} by the count of its frameworks",
    "nothing-to-give": "nothing to give back",
    "devices-did-not-say": "the devices did not say what is held now",
    "keeps-pool": "{framework} keeps its pool: only ending the process gives it back",
    "keeps-pool-in-use": "{framework} keeps its pool, of which variables hold {held_bytes}: only ending the process "
    "gives it back",
    "keeps-variables": "{framework} keeps {held_bytes} that variables hold",
    "framework-failed": "{framework} failed ({fault})",
    "error-holds": "the saved last error holds {held_bytes}: run `{command}` in the notebook, or restart the kernel",
    "no-framework": "it uses no framework that can be asked",
    "moved-to-host": "{held_bytes} were moved to the host's memory in {took_seconds} s",
    "lives-on": "the kernel lives on",
    "freed-not-seen": "what that freed could not be seen",
    "still-listed": "the driver still lists {held_bytes}",
    "goes-on": "it goes on as before",
    "back-after": "{held_bytes} are back on the GPU after {took_seconds} s",
    "not-parked": "it is not parked",
}
GAPS: Mapping[str, str] = {
    "no-driver": "No NVIDIA driver here (libnvidia-ml.so.1 is not found): install the driver, or start the container "
    "with its GPUs.",
    "driver-not-loaded": "The NVIDIA driver is not loaded: see whether `nvidia-smi` works, and load it or reboot.",
    "driver-forbidden": "This user may not talk to the NVIDIA driver: let the user read and write /dev/nvidiactl and "
    "/dev/nvidia*.",
    "driver-too-old": "The NVIDIA driver is too old for nvidia-ml-py: update the driver.",
    "driver-mismatch": "The NVIDIA driver and its library have different versions, as after an update: reboot, or "
    "reload the driver and restart this server.",
    "no-gpu": "The NVIDIA driver finds no GPU: see `nvidia-smi` and the system log.",
    "driver-silent": "The NVIDIA driver does not answer ({detail}): see `nvidia-smi` and the system log.",
    "driver-closed": "The connection to the NVIDIA driver was closed by another part of this server; it is opened "
    "again.",
    "library-missing": "The Python package nvidia-ml-py is missing: pip install nvidia-ml-py",
    "linux-only": "jupyter-gpu-guard measures on Linux only.",
    "no-other-gpu": "There is no AMD or Intel GPU here.",
    "stopping": "The guard is stopping.",
    "device-silent": "GPU {index} does not answer ({detail}): see `nvidia-smi` and the system log.",
    "pids-hidden": "{device}: this container cannot see its own GPU processes, because the driver names them by the "
    "host's numbers: update the driver to 570 or later, or start the container in the host's pid namespace. For a "
    "notebook that is alone on its GPU, c.GpuGuard.estimate_sole_owner = True gives an estimate.",
    "who-is-estimated": "{device}: who is on it is an estimate, because this container cannot see its own GPU "
    "processes: nothing is ended on it unless a rule trusts estimates.",
    "who-is-forbidden": "{device}: this user may not see which processes use it: an administrator can allow it.",
    "who-is-unsupported": "{device}: this driver does not say which processes use it, so nothing can be judged.",
    "who-is-unknown": "{device}: the driver does not say which processes use it ({detail}): see `nvidia-smi` and the "
    "system log.",
    "kernels-late": "the server's kernels gave no answer within {limit_seconds} s",
    "kernels-silent": "the server's kernels could not be listed: {detail}",
    "processes-unread": "the process table could not be read: {detail}",
    "devices-unread": "the devices could not be read: {detail}",
    "leases-unread": "the leases could not be read: {detail}",
}

_PART = re.compile(r"; (?![^()]*\))")  # what stands in brackets is one part
_NAME = re.compile(r"\{(\w+)\}")
_KINDS = {
    "_bytes": r"[\d.]+ [GM]iB|GPU memory",
    "_seconds": r"[\d.]+",
    "_count": r"\d+",
    "pid": r"\d+",
    "index": r"\d+",
}
_SIZES = {"GiB": 2**30, "MiB": 2**20}

_REMEMBERED = 1000  # sentences

Said = tuple[str, str, Mapping[str, Fact]]


def of_outcome(detail: str) -> list[Said]:
    """The parts of a detail in their order: code, text, facts. The code is empty where it is not known."""
    return list(_parts(detail))


@lru_cache(_REMEMBERED)  # each report tells the same ones again, and to find the codes of a hundred takes a while
def _parts(detail: str) -> tuple[Said, ...]:
    return tuple(_said(part, OUTCOMES) for part in _PART.split(detail) if part)


def of_gap(why: str) -> Said:
    """Why a source did not answer: code, text, facts."""
    return _said(why, GAPS)


def _said(text: str, templates: Mapping[str, str]) -> Said:
    for code, template in templates.items():
        found = _pattern(template).fullmatch(text)
        if found is not None:
            return code, text, {name: _fact(name, value) for name, value in found.groupdict().items()}
    return "", text, {}


@cache
def _pattern(template: str) -> re.Pattern[str]:
    *fixed, last = _NAME.split(template)[::2]
    names = _NAME.findall(template)
    parts = [re.escape(text) + f"(?P<{name}>{_kind(name)})" for text, name in zip(fixed, names, strict=True)]
    return re.compile("".join(parts) + re.escape(last))


def _kind(name: str) -> str:
    return next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), ".+")


def _fact(name: str, value: str) -> Fact:
    if name.endswith("_bytes"):
        amount, unit = value.split()
        return float(amount) * _SIZES[unit] if unit in _SIZES else None
    return float(value) if name.endswith(("_seconds", "_count")) else value
