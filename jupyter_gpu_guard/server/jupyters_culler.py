"""Jupyter's own culler of idle kernels, which may run beside the guard: what it will do, in words."""

from __future__ import annotations

from typing import Any

from jupyter_gpu_guard.core.explain import Said, span
from jupyter_gpu_guard.core.model import Holder
from jupyter_gpu_guard.core.policy import Mode, Policy, Rule
from jupyter_gpu_guard.core.remarks import limit_of


def its_limit(kernel_manager: Any, kernel_id: str) -> float | None:
    """After how many seconds without a message Jupyter ends the kernel by itself; None: not at all, or not known."""
    usual = getattr(kernel_manager, "cull_idle_timeout", 0)
    if not isinstance(usual, (int, float)) or usual <= 0:  # then a kernelspec's own limit does not count either
        return None
    if kernel_id not in kernel_manager:
        return None
    try:
        own = kernel_manager.get_kernel(kernel_id).kernel_spec.metadata.get("cull_idle_timeout", usual)
    except (KeyError, AttributeError):  # its kernelspec is gone, or it has none
        return None
    return float(own) if isinstance(own, (int, float)) else None


CODES = ("jupyter-culls", "jupyter-culls-first", "jupyter-culls-later")


def which_comes_first(its_limit: float, holder: Holder, rule: Rule, policy: Policy) -> Said:
    """One sentence on Jupyter's limit for an idle `holder`, and on whether the guard's comes before it."""
    first = f"Jupyter itself ends this kernel after {span(its_limit)} without a message (cull_idle_timeout)"
    ours = _limit(holder, rule)
    if ours is None or policy.mode is Mode.OBSERVE:
        return Said("jupyter-culls", f"{first}; the guard does not.", {"its_seconds": its_limit})
    facts = {"its_seconds": its_limit, "our_seconds": ours}
    if its_limit < ours:
        text = f"{first}; that comes before the guard's limit of {span(ours)}."
        return Said("jupyter-culls-first", text, facts)
    return Said("jupyter-culls-later", f"{first}; the guard's limit of {span(ours)} comes first.", facts)


def _limit(holder: Holder, rule: Rule) -> float | None:
    """Seconds of idleness after which `rule` ends `holder`; None: it never does."""
    lasting = limit_of(holder, rule)
    lossy = (stage.after.total_seconds() for stage in rule.ladder if stage.do.loses_work)
    after = min(lossy, default=None)
    return None if rule.keep or lasting is None or after is None else lasting + after


__all__ = ["CODES", "its_limit", "which_comes_first"]
