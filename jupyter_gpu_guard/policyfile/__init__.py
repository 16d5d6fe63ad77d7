"""YAML files to a Policy: every problem at once, each with its file, line and column, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from jupyter_gpu_guard.core.policy import DEFAULT_RULE, Action, Idle, KeepLimits, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.quantities import LARGEST_BYTES, LONGEST

from .building import build, usual_ladder
from .draft import FileDraft
from .marked import compose, read_text
from .problems import Place, PolicyError, Problem, suggestion
from .reading import Reader

MOST_SHOWN = 5


def load(paths: Sequence[Path]) -> Policy:
    """The policy that `paths` make together; no path: the built-in defaults. Raises PolicyError with every problem."""
    if not paths:
        return Policy(digest=_digest(b""))
    problems: list[Problem] = []
    drafts: list[FileDraft] = []
    contents = sha256()
    for path in paths:
        text = read_text(path)
        if isinstance(text, Problem):
            problems.append(text)
            continue
        contents.update(sha256(text.encode()).digest())
        root = compose(text, str(path), problems)
        if root is not None:
            drafts.append(Reader(str(path), problems).file(root))
    policy = build(drafts, problems)
    if problems:
        order = {str(path): position for position, path in enumerate(paths)}
        raise PolicyError(sorted(problems, key=lambda problem: (order[problem.place.file], problem.place)))
    return replace(policy, digest=contents.hexdigest()[:12], source=", ".join(map(str, paths)))


def from_traits(
    *,
    mode: str = "observe",
    cull_idle_timeout: float = 7200,
    cull_compute_below: float = 5,
    cull_memory_above: float = 512 * 2**20,
    notice_time: float = 900,
    longest_keep: float = 8 * 3600,
) -> Policy:
    """The policy that the options make: seconds, percent, bytes, seconds, seconds.

    A `cull_idle_timeout` or `notice_time` of 0 or less never runs out: nothing is judged idle, or people are only told.
    Raises PolicyError.
    """
    problems: list[Problem] = []

    def expect(name: str, holds: bool, value: object, right: str) -> None:  # noqa: FBT001 - local
        if not holds:
            problems.append(Problem(Place(f"c.GpuGuard.{name}"), f"{value!r} cannot be used", right))

    modes = [m.value for m in Mode]
    expect("mode", mode in modes, mode, suggestion(mode, modes))
    longest = LONGEST.total_seconds()
    expect("cull_idle_timeout", cull_idle_timeout < longest, cull_idle_timeout, "write 0 for never")
    expect("cull_compute_below", 0 < cull_compute_below <= 100, cull_compute_below, "write a percentage, 5")  # noqa: PLR2004 - percent
    expect("cull_memory_above", 0 < cull_memory_above < LARGEST_BYTES, cull_memory_above, f"write bytes, {512 * 2**20}")
    expect("notice_time", notice_time < longest, notice_time, "write 0 for never")
    expect("longest_keep", 0 < longest_keep < longest, longest_keep, f"write seconds, {8 * 3600}")
    if problems:
        raise PolicyError(problems)
    notice = timedelta(seconds=notice_time) if notice_time > 0 else Rule(DEFAULT_RULE).notice
    rule = Rule(
        DEFAULT_RULE,
        idle=Idle(
            compute_below=cull_compute_below,
            memory_above=cull_memory_above,
            lasting=timedelta(seconds=cull_idle_timeout) if cull_idle_timeout > 0 else None,
        ),
        notice=notice,
        keep_limits=KeepLimits(longest=timedelta(seconds=longest_keep)),
        ladder=usual_ladder(notice) if notice_time > 0 else (Stage(Action.WARN),),
    )
    policy = Policy(mode=Mode(mode), rules=(rule,), source="c.GpuGuard options")
    return replace(policy, digest=_digest(repr(policy).encode()))


def broken(problems: Sequence[Problem], fallback: Policy) -> Policy:
    """`fallback`, but only observing, with `problems` as its fault: what a server starts with when a file is broken."""
    lines = [str(problem) for problem in problems[:MOST_SHOWN]]
    if more := len(problems) - MOST_SHOWN:
        lines += [f"and {more} more"] if more > 0 else []
    return replace(fallback, mode=Mode.OBSERVE, fault="\n".join(lines) or "unknown fault")


def discover(config_path: Sequence[str] | None = None) -> tuple[Path, ...]:
    """The policy files of this installation, the machine's before the environment's, each by name.

    A user's own Jupyter folders are not looked into: a policy is the site's. `config_path` (nearest first) replaces
    Jupyter's system paths.
    """
    if config_path is None:
        from jupyter_core.paths import ENV_CONFIG_PATH, SYSTEM_CONFIG_PATH  # noqa: PLC0415 - only needed here

        config_path = [*ENV_CONFIG_PATH, *SYSTEM_CONFIG_PATH]
    found: dict[Path, Path] = {}
    for folder in reversed(config_path):
        for path in sorted(Path(folder, "gpu-guard", "policy.d").glob("*.yaml")):
            found.setdefault(path.resolve(), path)
    return tuple(found.values())


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:12]


__all__ = ["Place", "PolicyError", "Problem", "broken", "discover", "from_traits", "load"]
