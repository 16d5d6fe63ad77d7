"""The one way to ask something of a Python kernel that is idle, without using it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from jupyter_client.session import DELIM, Session

from jupyter_gpu_guard.core.model import OwnerKind, OwnerState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpu_guard.core.model import Owner, OwnerKey

READY_WITHIN = 5.0  # seconds in which an idle kernel says who it is; one that does not is not idle after all

_MIME = "application/vnd.jupyter-gpu-guard+json"

# Evaluated in the person's namespace, so it binds no name there, and raises nothing: what is raised while an expression
# is evaluated becomes the saved traceback of the kernel. It does nothing once its time is over: a cell that began
# meanwhile may have held it up, and nobody waits for the answer any more. Nothing of it is left for the collector.
_EXPRESSION = (
    '(lambda given: [__import__("builtins").exec(given["program"], given), given.pop("answer"), given.clear()][1])'
    "({given!r})"
)
_PROGRAM = """
def ask(mime, until, source, function, arguments):
    import time
    import types

    names = {"__name__": "jupyter_gpu_guard_inside"}
    try:
        if time.monotonic() > until:
            said = {"late": True}
        else:
            exec(compile(source, "<jupyter-gpu-guard>", "exec"), names)
            said = {"value": names[function](until, **arguments)}
    except BaseException as fault:
        said = {"fault": type(fault).__name__}
    finally:
        names.clear()
    return types.SimpleNamespace(_repr_mimebundle_=lambda **how: {mime: said})


answer = ask(mime, until, source, function, arguments)
"""


class AskError(Exception):
    """A kernel was asked, or was to be asked, and there is no answer. The text is for people, and holds no secret."""


class UnsuitedError(AskError):
    """This kernel cannot be asked. Nothing was done in it."""


class WithdrawnError(AskError):
    """At the last look there was a reason not to ask. Nothing was done in it."""


class LateError(AskError):
    """It did not answer in time. It is not interrupted: what it does may go on for a while.

    `begun` False: the question was not even put, since the kernel did not say who it is.
    """

    def __init__(self, why: str, *, begun: bool) -> None:
        super().__init__(why)
        self.begun = begun


class BrokenError(AskError):
    """What was asked failed in the kernel."""


@dataclass(frozen=True)
class Question:
    """`function` of the Python text `source`, to be called with the time by which it must be over, and `arguments`.

    The time is that of `time.monotonic()`; arguments and answer are JSON values. The text stands for itself: it may
    import only what is in every kernel anyway, and must not bind anything outside of itself.
    """

    source: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def expression(self, until: float) -> str:
        """The same as one Python expression."""
        given = {
            "program": _PROGRAM,
            "mime": _MIME,
            "until": until,
            "source": self.source,
            "function": self.function,
            "arguments": dict(self.arguments),
        }
        return _EXPRESSION.format(given=given)


def nothing_against_it() -> str | None:
    """The answer where nobody objects."""
    return None


class Inside:
    """Asks the kernels of `manager`, one message at a time. Lives on the event loop, blocks nowhere.

    `look_again` sees one owner at this very moment. `session` names us in every message that we send: by it our own
    ears and Jupyter's note of the last activity leave out what we have caused.
    """

    def __init__(self, manager: Any, look_again: Callable[[OwnerKey], Owner | None]) -> None:
        self._manager = manager
        self._look_again = look_again
        self.session = f"gpu-guard-{uuid4().hex}"

    def why_unsuited(self, owner: Owner) -> str | None:
        """Why `owner` cannot be asked, as far as can be told without asking; None: it can. Costs nothing."""
        if owner.key.kind is not OwnerKind.KERNEL:
            return f"it is a {owner.key.kind.value}, and not a kernel"
        if owner.root is None:
            return "its process is not known here: it may run on another machine"
        try:
            language = str(self._manager.get_kernel(owner.key.id).kernel_spec.language)
        except Exception:  # noqa: BLE001 - a kernel manager may be anyone's
            return "its kernelspec cannot be read"
        return None if language.lower() == "python" else f"it is a kernel for {language or 'another language'}"

    async def ask(
        self, owner: Owner, question: Question, within: float, unless: Callable[[], str | None] = nothing_against_it
    ) -> Any:
        """The answer of `owner` to `question`, within so many seconds. Raises one of AskError.

        `unless` is asked right before the question is sent; a reason why not withdraws it.
        """
        if (why := self.why_unsuited(owner)) is not None:
            raise UnsuitedError(why)
        kernel = self._manager.get_kernel(owner.key.id)
        self._keep_out_of_its_activity(kernel)
        if (why := self._why_not(owner)) is not None:
            raise WithdrawnError(why)
        until = time.monotonic() + within
        line = _Line(kernel, self.session)
        try:
            # Only a kernel with nothing before it says who it is; so what follows has to wait for nothing.
            told = await line.exchange("kernel_info_request", {}, min(READY_WITHIN, within))
            if told is None:
                raise LateError("it did not answer, although it seemed to be idle", begun=False)
            if told.get("implementation") != "ipython":
                raise UnsuitedError(f"it is no IPython kernel (but {told.get('implementation', 'another one')})")
            # Nothing is awaited between this look and the question.
            if (why := self._why_not(owner) or unless()) is not None:
                raise WithdrawnError(why)
            content = {
                "code": "",
                "silent": True,
                "store_history": False,
                "user_expressions": {"answer": question.expression(until)},
                "allow_stdin": False,
                "stop_on_error": False,
            }
            reply = await line.exchange("execute_request", content, until - time.monotonic())
        finally:
            line.close()
        return _understood(reply, within)

    async def answers(self, owner: Owner) -> bool:
        """Whether it says promptly who it is, as it does while nothing else is before us."""
        line = _Line(self._manager.get_kernel(owner.key.id), self.session)
        try:
            return await line.exchange("kernel_info_request", {}, READY_WITHIN) is not None
        finally:
            line.close()

    def _why_not(self, owner: Owner) -> str | None:
        now = self._look_again(owner.key)
        if now is None:
            return "it has ended by itself"
        if now.root != owner.root:
            return "it has been restarted since"
        return None if now.state is OwnerState.IDLE else f"it is {now.state.value} by now"

    def _keep_out_of_its_activity(self, kernel: Any) -> None:
        """Have the server's note of this kernel's activity leave out what we cause. Raises UnsuitedError."""
        stream = getattr(kernel, "_activity_stream", None)
        if stream is None:
            if hasattr(kernel, "last_activity"):
                raise UnsuitedError("this server notes activity in a way that is not known, so asking would count")
            return
        note = getattr(stream, "_recv_callback", None)
        if isinstance(note, _AllButOurs):
            return
        if note is None:
            raise UnsuitedError("this server notes activity in a way that is not known, so asking would count")
        stream.on_recv(_AllButOurs(note, self.session.encode()))


class _AllButOurs:
    """Passes on what a kernel broadcasts, but for what was caused by us."""

    def __init__(self, note: Callable[[list[bytes]], Any], ours: bytes) -> None:
        self._note = note
        self._ours = ours

    def __call__(self, parts: list[bytes]) -> Any:
        """Pass on one message, unless its parent is ours."""
        if DELIM in parts and self._ours in b"".join(parts[parts.index(DELIM) + 3 :][:1]):
            return None
        return self._note(parts)


class _Line:
    """A connection of our own to the shell of one kernel."""

    def __init__(self, kernel: Any, name: str) -> None:
        theirs = kernel.session
        self._session = Session(
            config=theirs.config, key=theirs.key, signature_scheme=theirs.signature_scheme, session=name
        )
        self._awaited: tuple[str, asyncio.Future[Mapping[str, Any]]] | None = None
        self._stream = kernel.connect_shell()
        self._stream.on_recv(self._receive)

    async def exchange(self, kind: str, content: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The content of the reply to one request; None: there was none in so many seconds."""
        message = self._session.msg(kind, dict(content))
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._awaited = message["header"]["msg_id"], answer
        self._session.send(self._stream, message)
        await asyncio.wait({answer}, timeout=max(0.0, within))
        return answer.result() if answer.done() else None

    def close(self) -> None:
        """Let go. What was not sent yet is not sent any more."""
        self._stream.on_recv(None)
        self._stream.close(linger=0)

    def _receive(self, parts: Sequence[bytes]) -> None:
        try:
            message = self._session.deserialize(list(parts[list(parts).index(DELIM) + 1 :]))
        except Exception:  # noqa: BLE001 - the kernel may send anything at all, and then it has not answered
            return
        request, answer = self._awaited or ("", None)
        if answer is not None and not answer.done() and message["parent_header"].get("msg_id") == request:
            answer.set_result(message["content"])


def _understood(reply: Mapping[str, Any] | None, within: float) -> Any:
    """The value that was answered. Raises one of AskError."""
    late = f"it did not answer within {within:g} s; it was not interrupted"
    if reply is None:
        raise LateError(late, begun=True)
    told = (reply.get("user_expressions") or {}).get("answer") or {}
    said = (told.get("data") or {}).get(_MIME)
    if said is None:
        raise BrokenError(f"it gave no answer (status {reply.get('status')}, {told.get('ename', 'no reason')})")
    if said.get("late"):
        raise LateError(late, begun=True)
    if "fault" in said:
        raise BrokenError(f"it failed in the kernel ({said['fault']})")
    return said["value"]
