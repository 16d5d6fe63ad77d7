"""REST: parse, call, render. Every route is authenticated, authorised and XSRF-checked, and none counts as activity."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from typing import Any, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import ensure_async
from tornado import web
from tornado.httputil import HTTPServerRequest

from jupyter_gpu_guard.core.explain import span
from jupyter_gpu_guard.core.model import OwnerKey, OwnerKind
from jupyter_gpu_guard.core.policy import Action
from jupyter_gpu_guard.guard import Guard, TooLateError
from jupyter_gpu_guard.keeping import KeepRefusedError, KeepTooLongError, KeptTooOftenError
from jupyter_gpu_guard.published import NoSuchOwnerError, NotPendingError, Published, pending_sentence
from jupyter_gpu_guard.quantities import parse_since
from jupyter_gpu_guard.snapshots import Header, Pseudonyms, only_what_matters, to_json, without_names

from .jupyters_culler import its_limit, which_comes_first

AUTH_RESOURCE = "gpu_guard"
ADMIN_RESOURCE = "gpu_guard:admin"
_ALLOW_EVERYTHING = {
    "jupyter_server.auth.authorizer.AllowAllAuthorizer",
    "jupyterhub.singleuser.extension.JupyterHubAuthorizer",
}
_WORDS = Pseudonyms()
LONGEST_KEEP = timedelta(days=3650)  # whatever the right
ANSWER_WITHIN = 8.0  # seconds, less than a command line waits; a longer act goes on, its outcome is in the report


class GuardHandler(ExtensionHandlerMixin, APIHandler):
    """What all routes share."""

    auth_resource = AUTH_RESOURCE
    _track_activity = False

    @property
    def guard(self) -> Guard:
        """The guard of this server."""
        extension: Any = self.extensionapp
        return cast("Guard", extension.guard)

    @property
    def who(self) -> str:
        """The name of whoever asks, for people: with a token alone, Jupyter makes up a user name that says nothing."""
        user = self.current_user
        return str(getattr(user, "display_name", "") or getattr(user, "username", "") or "somebody")

    async def is_administrator(self) -> bool:
        """Whether whoever asks may do what the rules keep from users.

        Jupyter's default authorizer and JupyterHub's own allow everything to everybody who may come in, so they say
        nothing of the kind: then it is whoever runs this server, as long as no policy of the site governs them.
        """
        kind = type(self.authorizer)
        if f"{kind.__module__}.{kind.__qualname__}" in _ALLOW_EVERYTHING:
            extension: Any = self.extensionapp
            return not extension.is_governed
        may = self.authorizer.is_authorized(self, self.current_user, "execute", ADMIN_RESOURCE)
        return bool(await ensure_async(may))

    async def told(self) -> Published:
        """What the guard has published, as far as it is for whoever asks."""
        from .rules import for_users  # noqa: PLC0415

        return self.guard.published if await self.is_administrator() else for_users(self.guard.published)

    def owner(self, text: str) -> OwnerKey:
        """The owner named in the path. 404 with a sentence if there is none."""
        try:
            key = OwnerKey.parse(text)
            self.guard.published.holder(key)
        except (ValueError, NoSuchOwnerError) as error:
            raise web.HTTPError(404, str(error.args[0])) from None
        return key

    def answer(self, body: Any, status: int = 200) -> None:
        """Finish with a wire model as JSON."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.finish(body.model_dump_json())


def _is_from_a_page(request: HTTPServerRequest) -> bool:
    """Whether a script of a page asks, and not a command line, or a person who looks at the answer itself.

    A browser says which of its pages a script belongs to.
    """
    headers = request.headers
    return "Referer" in headers and headers.get("Sec-Fetch-Mode") != "navigate"


class ReportHandler(GuardHandler):
    """GET report."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """All that is seen, judged and done."""
        if _is_from_a_page(self.request):
            extension: Any = self.extensionapp
            extension.pages.asked()
        from .report import report  # noqa: PLC0415  pydantic is loaded when first needed, not at server start

        self.answer(report(await self.told()))


class ExplainHandler(GuardHandler):
    """GET explain/{owner}."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, owner: str) -> None:
        """Why, for one owner."""
        from .report import explanation, with_lines  # noqa: PLC0415

        state, key = self.guard.published, self.owner(owner)
        answer = explanation(state, key)
        also = its_limit(self.kernel_manager, key.id) if key.kind is OwnerKind.KERNEL else None
        if also is not None:
            holder = state.holder(key)
            answer = with_lines(answer, [which_comes_first(also, holder, state.rule_for(holder), state.policy)])
        self.answer(answer)


class HealthHandler(GuardHandler):
    """GET health."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """Whether the guard runs and what it cannot do now."""
        from jupyter_gpu_guard import __version__  # noqa: PLC0415

        from .report import coded  # noqa: PLC0415
        from .rules import WAITS  # noqa: PLC0415
        from .said import of_problem  # noqa: PLC0415
        from .wire import WireHealth  # noqa: PLC0415

        state = await self.told()
        waits = None
        if state.pending is not None:
            waits = pending_sentence(state.pending) if state is self.guard.published else WAITS
        problems = list(self.guard.problems_beside(state.policy.fault, waits))
        self.answer(
            WireHealth(
                status="degraded" if problems else "ok",
                version=__version__,
                mode=state.policy.mode.value,
                simulated=bool(state.snapshot and state.snapshot.simulated),
                last_tick_at=state.snapshot.taken_at.wall if state.snapshot else None,
                ticks=state.ticks,
                problems=problems,
                said=[coded(part) for problem in problems for part in of_problem(problem)],
            )
        )


class SnapshotHandler(GuardHandler):
    """GET snapshot."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """What was seen last, as `record` writes it. Without `names=1`, opaque words stand in place of names."""
        names = self.get_query_argument("names", "0")
        if names not in ("0", "1"):
            raise web.HTTPError(400, "names: must be 0 or 1")
        extension: Any = self.extensionapp
        answer = await asyncio.to_thread(_snapshot, self.guard, extension.resting_interval, names=names == "1")
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.finish(answer)


def _snapshot(guard: Guard, resting: float, *, names: bool) -> str:
    """The last Snapshot as JSON, with a header and the number of the look. Takes a while where processes are many."""
    from jupyter_gpu_guard import __version__  # noqa: PLC0415

    state = guard.published
    snapshot = state.snapshot
    header = Header(__version__, _WORDS.run, state.interval, resting, state.policy.digest, names=names)
    line = "null"
    if snapshot is not None:
        snapshot = only_what_matters(snapshot, state.attribution.lineage)
        line = to_json(snapshot if names else without_names(snapshot, _WORDS))
    return f'{header.line()[:-1]}, "look": {state.ticks}, "snapshot": {line}}}'


class AuditHandler(GuardHandler):
    """GET audit."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """What was done, to whom and why; the names of other people only for an administrator."""
        from .audit import audit  # noqa: PLC0415

        extension: Any = self.extensionapp
        try:
            since = parse_since(self.get_query_argument("since", "7d"), datetime.now(timezone.utc))
        except ValueError as error:
            raise web.HTTPError(400, f"since: {error}") from None
        owner = self.get_query_argument("owner", None)
        only_of = None if await self.is_administrator() else self.who
        try:
            extract = await asyncio.to_thread(extension.audit.read, since)
        except OSError as error:
            raise web.HTTPError(503, f"the audit cannot be read ({error.strerror or error})") from None
        self.answer(await asyncio.to_thread(audit, extract, since, owner, only_of=only_of))


class KeepHandler(GuardHandler):
    """POST and DELETE owners/{owner}/keep."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self, owner: str) -> None:
        """Keep it for so many seconds from now. 400 for longer than the rule allows, 403 for more often."""
        from pydantic import ValidationError  # noqa: PLC0415

        from .report import lease_to_wire  # noqa: PLC0415
        from .wire import WireKeep  # noqa: PLC0415

        key = self.owner(owner)
        try:
            asked = WireKeep.model_validate_json(self.request.body)
            lasting = timedelta(seconds=asked.seconds)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "body"
            raise web.HTTPError(400, f'{where}: {first["msg"]}; expected {{"seconds": 3600, "reason": "…"}}') from None
        except (OverflowError, ValueError):
            raise web.HTTPError(400, "seconds: out of range; expected for example 3600") from None
        if lasting > LONGEST_KEEP:
            raise web.HTTPError(400, f"seconds: out of range; {LONGEST_KEEP.total_seconds():g} are the most")
        if lasting <= timedelta(0):
            raise web.HTTPError(400, "seconds: must be more than 0; to end a lease, DELETE this address")
        if asked.beyond_limits and not await self.is_administrator():
            raise web.HTTPError(403, "beyond_limits: only an administrator may keep it beyond the limits of its rule")
        try:
            lease = await self.guard.keep(
                key, lasting, asked.reason.strip(), self.who, beyond_limits=asked.beyond_limits
            )
        except KeepRefusedError as error:
            raise _refused(error, lasting.total_seconds()) from None
        except TooLateError as error:
            raise web.HTTPError(409, str(error)) from None
        self.answer(lease_to_wire(lease))

    @web.authenticated
    @authorized(action="execute")
    async def delete(self, owner: str) -> None:
        """End the lease. 404 if there is none."""
        key = self.owner(owner)
        if not await self.guard.unkeep(key, self.who):
            raise web.HTTPError(404, f"{key} is not kept by anybody")
        self.set_status(204)
        self.finish()


def _refused(error: KeepRefusedError, seconds: float) -> web.HTTPError:
    """What is not allowed, and what would be."""
    if isinstance(error, KeepTooLongError):
        limit = error.longest.total_seconds()
        return web.HTTPError(400, f"{span(seconds)} is longer than the limit of {span(limit)} ({limit:g} seconds)")
    if isinstance(error, KeptTooOftenError) and error.again_at is not None:
        times = "once" if error.per_day == 1 else f"{error.per_day} times"
        again = error.again_at.isoformat(timespec="minutes")
        return web.HTTPError(
            403, f"its rule lets it be kept {times} in 24 hours: again from {again}, or sooner by an administrator"
        )
    if isinstance(error, KeptTooOftenError):
        return web.HTTPError(403, "its rule does not let it be kept, but for an administrator")
    return web.HTTPError(400, f"reason: {error}: say what it is needed for")


class ActHandler(GuardHandler):
    """What POST owners/{owner}/release, park, resume and shutdown share."""

    act: Action

    @web.authenticated
    @authorized(action="execute")
    async def post(self, owner: str) -> None:
        """Do it now, after what is under way already. 200 with the outcome, or 202 while it takes longer.

        409 while something else takes longer.
        """
        from .report import outcome_to_wire  # noqa: PLC0415

        key, loop = self.owner(owner), asyncio.get_running_loop()
        until = loop.time() + ANSWER_WITHIN
        while True:
            try:
                act = self.guard.act(self.act, key, self.who)
            except NoSuchOwnerError as error:  # by now
                raise web.HTTPError(404, str(error.args[0])) from None
            doing, begun = self.guard.doing(key) or self.act, self.guard.begun(key)
            done, _ = await asyncio.wait({act}, timeout=until - loop.time())
            if not done:
                break
            if doing is self.act:
                self.answer(outcome_to_wire(act.result()))
                return
        if doing is not self.act:
            since = f", since {begun.isoformat(timespec='seconds')}" if begun is not None else ""
            raise web.HTTPError(
                409,
                f"something else is done to it ({doing.value}{since}): the {self.act.value} has not begun; ask again "
                "when that is over",
            )
        self.set_status(202)
        self.finish(json.dumps({"message": "under way; the outcome will be in the report"}))


class ReleaseHandler(ActHandler):
    """POST owners/{owner}/release."""

    act = Action.RELEASE


class ParkHandler(ActHandler):
    """POST owners/{owner}/park."""

    act = Action.PARK


class ResumeHandler(ActHandler):
    """POST owners/{owner}/resume."""

    act = Action.RESUME


class ShutdownHandler(ActHandler):
    """POST owners/{owner}/shutdown."""

    act = Action.SHUTDOWN


class PolicyHandler(GuardHandler):
    """GET policy."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """The rules in force, and what waits for a person."""
        from .rules import effective  # noqa: PLC0415

        self.answer(effective(await self.told()))


class AcceptHandler(GuardHandler):
    """POST policy/accept."""

    @web.authenticated
    @authorized(action="execute", resource=ADMIN_RESOURCE)
    async def post(self) -> None:
        """Put the policy in force that waits. 409 if another one waits by now, or none."""
        from pydantic import ValidationError  # noqa: PLC0415

        from .rules import effective  # noqa: PLC0415
        from .wire import WireAccept  # noqa: PLC0415

        try:
            asked = WireAccept.model_validate_json(self.request.body)
        except ValidationError:
            raise web.HTTPError(400, 'expected {"hash": "…"}, with the hash of the policy that waits') from None
        try:
            self.guard.accept(asked.hash, self.who)
        except NotPendingError as error:
            raise web.HTTPError(409, str(error)) from None
        self.answer(effective(await self.told()))


class NotFoundHandler(GuardHandler):
    """Whatever else is asked under our address."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, path: str) -> None:
        """404 with a sentence."""
        known = "report, explain/{owner}, health, policy, policy/accept, snapshot, audit"
        raise web.HTTPError(
            404,
            f"no such resource {path!r}; there are {known}, owners/{{owner}}/keep, …/release, …/park, …/resume and "
            "…/shutdown",
        )


_OWNER = "([^/]+)"
_BASE = "/gpu-guard/api/v1"
ROUTES = [
    (rf"{_BASE}/report", ReportHandler),
    (rf"{_BASE}/explain/{_OWNER}", ExplainHandler),
    (rf"{_BASE}/health", HealthHandler),
    (rf"{_BASE}/policy", PolicyHandler),
    (rf"{_BASE}/policy/accept", AcceptHandler),
    (rf"{_BASE}/snapshot", SnapshotHandler),
    (rf"{_BASE}/audit", AuditHandler),
    (rf"{_BASE}/owners/{_OWNER}/keep", KeepHandler),
    (rf"{_BASE}/owners/{_OWNER}/release", ReleaseHandler),
    (rf"{_BASE}/owners/{_OWNER}/park", ParkHandler),
    (rf"{_BASE}/owners/{_OWNER}/resume", ResumeHandler),
    (rf"{_BASE}/owners/{_OWNER}/shutdown", ShutdownHandler),
    (rf"{_BASE}/(.*)", NotFoundHandler),
]

__all__ = ["ROUTES"]
