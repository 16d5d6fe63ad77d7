"""The policy of a running server: read when it starts, and followed from then on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from jupyter_gpu_guard.aside import Aside
from jupyter_gpu_guard.core.policy import Policy
from jupyter_gpu_guard.guard import Guard

if TYPE_CHECKING:
    from jupyter_gpu_guard.policyfile import Governing, PolicyError
    from jupyter_gpu_guard.policyfile.watch import PolicyFiles

READ_WITHIN = 30.0  # seconds; a file system that hangs is waited for no longer at once


class PolicyFollower:
    """Puts what the files say into force, and says so once when they cannot be used.

    `governed` is told whether a policy of the site governs whoever runs the server.
    """

    def __init__(
        self,
        files: PolicyFiles,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        governed: Callable[[bool], None],
    ) -> None:
        self._files = files
        self._log = log
        self._governed = governed
        self._has_been_good = False
        self._faulty = False
        self._look: Aside[Governing | PolicyError | None] = Aside("policy", files.reread, READ_WITHIN)

    def first(self) -> Policy:
        """What a server starts with. A fault: observe only, and the fault is shown everywhere."""
        from jupyter_gpu_guard.policyfile import PolicyError, broken  # noqa: PLC0415 - YAML takes a while

        try:
            governing = self._files.read()
        except PolicyError as error:
            policy = broken(error.problems, Policy())
            self._log.error("GPU guard: the policy is not in force, nothing will be ended:\n%s", policy.fault)
            return policy
        self._taken(governing)
        policy = governing.policy
        self._log.info("GPU guard: mode %s, policy %s from %s", policy.mode.value, policy.digest, policy.source)
        return policy

    async def follow(self, guard: Guard, every: float) -> None:
        """Look every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                news = await self._look()
            except Exception as error:  # noqa: BLE001  tried again; the last good policy stays
                if not self._faulty:
                    self._log.warning("GPU guard: the policy files cannot be looked at: %r", error)
                self._faulty = True
                continue
            self._faulty = False
            if news is not None:
                self.take(guard, news)

    def take(self, guard: Guard, news: Governing | PolicyError) -> None:
        """Put a new policy in force or, if it cannot be used, keep the last good one and show the fault."""
        from jupyter_gpu_guard.policyfile import PolicyError, said  # noqa: PLC0415

        if isinstance(news, PolicyError):
            fault = said(news.problems)
            if fault != guard.published.policy.fault:
                self._log.error("GPU guard: the changed policy is not taken, the last one stays in force:\n%s", fault)
            guard.refuse(fault)
            return
        if self._has_been_good:
            guard.propose(news.policy)
        else:
            guard.adopt(news.policy)  # there was none that it could be held against
        self._taken(news)

    def _taken(self, governing: Governing) -> None:
        self._has_been_good = True
        self._governed(governing.by_site)
        if governing.policy.fault:
            self._log.error("GPU guard: a file of the policy is left out:\n%s", governing.policy.fault)
