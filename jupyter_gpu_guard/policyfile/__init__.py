"""YAML files to a Policy: every problem at once, each with its file, line and column, and what would be right."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from yaml.nodes import Node

from jupyter_gpu_guard.core.policy import DEFAULT_RULE, Action, Idle, KeepLimits, Mode, Policy, Rule, Stage
from jupyter_gpu_guard.quantities import LARGEST_BYTES, LONGEST

from .building import build, usual_ladder
from .draft import FileDraft
from .grammar import CASES_SUFFIX
from .marked import compose, read_file, read_text
from .problems import Place, PolicyError, Problem, suggestion
from .reading import Reader
from .tightening import OwnFile, loosenings
from .trust import Person, Standing, standing, standing_of_way

MOST_SHOWN = 5


def load(paths: Sequence[Path]) -> Policy:
    """The policy that `paths` make together; no path: the built-in defaults. Raises PolicyError with every problem."""
    return _together([_Part(path, read_text(path)) for path in paths])[0]


@dataclass(frozen=True)
class Governing:
    """The policy that governs a person. `by_site`: it is not their own, so they may only tighten it."""

    policy: Policy
    by_site: bool


def govern(found: Sequence[Path], named: Sequence[Path], who: Person | None = None) -> Governing:
    """The policy that the files `found` in the site's folders and those `named` by configuration make for `who`.

    Files that `who` could change are their own, and so are those that are named, since it may be they who named them.
    Beside a policy of the site these may only tighten it; if they do not, or cannot be read, they are left out, and the
    fault of the policy says so. Raises PolicyError. `who`: whoever runs this process.
    """
    who = who or Person.running_this()
    known = {_real(path) for path in found}
    own_at_least = Standing.SITE if who.is_root else Standing.OWN
    parts = [_read(path, Standing.SITE, who) for path in found]
    parts += [_read(path, own_at_least, who) for path in named if _real(path) not in known]
    site = [part for part in parts if part.standing is Standing.SITE]
    own = [part for part in parts if part.standing is not Standing.SITE]
    policy, _ = _together(site or own)
    if not site:
        if policy.mode is Mode.ENFORCE and (open_to_all := _open_to_all(own)):
            raise PolicyError(open_to_all)
        return Governing(policy, by_site=False)
    if own:
        policy = _tightened(policy, site, own)
    return Governing(policy, by_site=not who.is_root)


@dataclass(frozen=True)
class _Part:
    """One file: its text, or why there is none."""

    path: Path
    text: str | Problem
    standing: Standing = Standing.SITE


def _read(path: Path, at_least: Standing, who: Person) -> _Part:
    try:
        read = read_file(path)
        if isinstance(read, Problem):
            return _Part(path, read, max(at_least, standing_of_way(path, who)))
        return _Part(path, read[0], max(at_least, standing(path, read[1], who)))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        what = f"it cannot be told who may change it ({why})"
        problem = Problem(Place(str(path)), what, "name a file whose folders you may look into")
        return _Part(path, problem, max(at_least, standing_of_way(path, who)))


def _together(parts: Sequence[_Part]) -> tuple[Policy, list[OwnFile]]:
    """The policy that they make, and what was read. Raises PolicyError with every problem."""
    if not parts:
        return Policy(digest=_digest(b"")), []
    problems: list[Problem] = []
    drafts: list[FileDraft] = []
    roots: list[OwnFile] = []
    contents = sha256()
    for part in parts:
        if isinstance(part.text, Problem):
            problems.append(part.text)
            continue
        contents.update(sha256(part.text.encode()).digest())
        file = str(part.path)
        root: Node | None = compose(part.text, file, problems)
        if root is not None:
            drafts.append(Reader(file, problems).file(root))
            roots.append(OwnFile(file, root))
    policy = build(drafts, problems)
    if problems:
        order = {str(part.path): position for position, part in enumerate(parts)}
        raise PolicyError(sorted(problems, key=lambda problem: (order[problem.place.file], problem.place)))
    source = ", ".join(str(part.path) for part in parts)
    return replace(policy, digest=contents.hexdigest()[:12], source=source), roots


def _tightened(policy: Policy, site: Sequence[_Part], own: Sequence[_Part]) -> Policy:
    """The site's `policy` with what the files of `own` add to it, or with the fault that they are left out for."""
    problems = _open_to_all(own)
    try:
        both, roots = _together([*site, *own])
        problems += loosenings(roots[len(site) :], policy, both)
    except PolicyError as error:
        problems += error.problems
    return replace(policy, fault=said(problems), fault_is_own=True) if problems else both


def _open_to_all(parts: Sequence[_Part]) -> list[Problem]:
    what = "everybody on this machine may change it, or a folder that leads to it"
    right = "take that right away with `chmod o-w`"
    return [Problem(Place(str(part.path)), what, right) for part in parts if part.standing is Standing.ANYBODY]


def from_traits(
    *,
    mode: str = "observe",
    cull_idle_timeout: float = 7200,
    cull_compute_below: float = 5,
    cull_memory_above: float = 512 * 2**20,
    notice_time: float = 900,
    longest_keep: float = 8 * 3600,
    undelivered_time: float = 12 * 3600,
) -> Policy:
    """The policy that the options make: seconds, percent, bytes, and the others in seconds.

    A `cull_idle_timeout` or `notice_time` of 0 or less never runs out: nothing is judged idle, or people are only told.
    With an `undelivered_time` of 0 or less nothing is lost before a warning reaches somebody. Raises PolicyError.
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
    wait = undelivered_time
    expect("undelivered_time", wait < longest, wait, "write 0 for never")
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
        undelivered=max(notice, timedelta(seconds=wait)) if wait > 0 else None,
    )
    policy = Policy(mode=Mode(mode), rules=(rule,), source="c.GpuGuard options")
    return replace(policy, digest=_digest(repr(policy).encode()))


def broken(problems: Sequence[Problem], fallback: Policy) -> Policy:
    """`fallback`, but only observing, with `problems` as its fault: what a server starts with when a file is broken."""
    return replace(fallback, mode=Mode.OBSERVE, fault=said(problems))


def said(problems: Sequence[Problem]) -> str:
    """The first of `problems`, a line for each."""
    lines = [str(problem) for problem in problems[:MOST_SHOWN]]
    if (more := len(problems) - MOST_SHOWN) > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines) or "unknown fault"


def discover(config_path: Sequence[str] | None = None) -> tuple[Path, ...]:
    """The policy files of this installation, the machine's before the environment's, each by name.

    A user's own Jupyter folders are not looked into: a policy is the site's. `config_path` (nearest first) replaces
    Jupyter's system paths.
    """
    if config_path is None:
        from jupyter_core.paths import ENV_CONFIG_PATH, SYSTEM_CONFIG_PATH  # noqa: PLC0415 - only needed here

        config_path = [*ENV_CONFIG_PATH, *SYSTEM_CONFIG_PATH]
    found: dict[str, Path] = {}
    for folder in reversed(config_path):
        for path in sorted(Path(folder, "gpu-guard", "policy.d").glob("*.yaml")):
            if path.name.endswith(CASES_SUFFIX):
                continue
            found.setdefault(_real(path), path)
    return tuple(found.values())


def _real(path: Path) -> str:
    """The file behind all links. Unlike Path.resolve(), it is content with links that lead nowhere."""
    return os.path.realpath(path) if "\0" not in str(path) else str(path)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:12]


__all__ = [
    "Governing",
    "Person",
    "Place",
    "PolicyError",
    "Problem",
    "broken",
    "discover",
    "from_traits",
    "govern",
    "load",
    "said",
]
