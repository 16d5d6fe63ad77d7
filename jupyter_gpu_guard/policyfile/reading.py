"""Marked YAML nodes to a draft: every key, type and unit is checked, and each mistake is noted where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import Enum
from typing import TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from jupyter_gpu_guard.core.model import OwnerKind, OwnerState
from jupyter_gpu_guard.core.policy import DEFAULT_RULE, Action, Match, Mode, Stage
from jupyter_gpu_guard.quantities import QuantityError, parse_duration, parse_percent, parse_size

from .draft import FileDraft, Placed, RuleDraft, Settings
from .marked import place_of
from .problems import Place, Problem, suggestion

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

VERSION = "1"
MOST = 1_000_000

# Where a key belongs that people often write one level too high or too low.
_HOMES = {
    **dict.fromkeys(("compute_below", "memory_above", "for", "unwatched_for"), "idle"),
    **dict.fromkeys(("owner", "notebook", "kernelspec", "device", "state"), "match"),
    **dict.fromkeys(("do", "after"), "a stage of ladder"),
    **dict.fromkeys(("shutdowns_per_hour", "shutdowns_per_tick", "share_of_holders"), "belts"),
    **dict.fromkeys(("idle", "notice", "keep", "ladder", "trust_estimates"), "defaults or a rule"),
    **dict.fromkeys(("mode", "belts", "defaults", "rules"), "the top level of the file"),
    **dict.fromkeys(("longest", "per_day", "reason"), "keep"),
}
_SETTINGS = ("idle", "notice", "keep", "ladder", "trust_estimates")
_SHAPES = {MappingNode: "a mapping of keys to values", SequenceNode: "a list", ScalarNode: "a single value"}


class Asked(str, Enum):
    """Whether a person who keeps something has to say why."""

    OPTIONAL = "optional"
    REQUIRED = "required"


class Reader:
    """Reads one file into a draft and notes its problems."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems

    def file(self, root: Node) -> FileDraft:
        """The whole file. An unknown version is the only thing said about such a file."""
        draft = FileDraft()
        noted = len(self._problems)
        keys = self._mapping(root, "the file", ("version", "mode", "belts", "defaults", "rules"))
        if keys is None:
            return draft
        version = keys.get("version")
        if version is None:
            self._say(root, "says no version", f"add `version: {VERSION}` as its first line")
        elif not isinstance(version, ScalarNode) or version.value != VERSION:
            del self._problems[noted:]
            said = repr(version.value) if isinstance(version, ScalarNode) else "this"
            self._say(version, f"{said} is not a known version", f"write `version: {VERSION}`")
            return draft
        draft.mode = self._word(keys.get("mode"), Mode, "a mode")
        known = ("shutdowns_per_hour", "shutdowns_per_tick", "share_of_holders")
        belts = self._section(keys.get("belts"), "belts", known)
        draft.shutdowns_per_hour = self._shutdowns(belts.get("shutdowns_per_hour"))
        draft.shutdowns_per_tick = self._shutdowns(belts.get("shutdowns_per_tick"))
        share = self._quantity(belts.get("share_of_holders"), _share)
        draft.share_of_holders = share.value if share else None
        defaults = self._section(keys.get("defaults"), "defaults", _SETTINGS)
        draft.defaults = self._settings(defaults)
        for item in self._items(keys.get("rules"), "rules", empty_is_fine=True):
            if rule := self._rule(item):
                draft.rules.append(rule)
        return draft

    def _rule(self, node: Node) -> RuleDraft | None:
        keys = self._mapping(node, "a rule", ("name", "match", *_SETTINGS))
        if keys is None:
            return None
        if (name := self._name(node, keys.get("name"))) is None:
            name = Placed("", self._place(node))
        keep = keys.get("keep")
        keeps = isinstance(keep, ScalarNode)
        if isinstance(keep, ScalarNode) and keep.value != "true":
            right = "write `keep: true` to leave alone what matches, or `keep: {longest: 8h}`"
            self._say(keep, f"{keep.value!r} is not a way to keep", right)
        if keeps:
            for other in ("idle", "notice", "ladder", "trust_estimates"):
                if (node_of_other := keys.get(other)) is not None:
                    what = f"{other!r} has no effect beside `keep: true`"
                    self._say(node_of_other, what, f"remove {other!r}, or remove `keep: true`")
        said = {key: value for key, value in keys.items() if not (keeps and key == "keep")}
        noted = len(self._problems)
        match = self._match(keys.get("match"))
        watched = _within(keys.get("idle"), "unwatched_for")
        if watched is not None and match.owner not in {None, OwnerKind.TENSORBOARD}:
            self._say(watched, "only a TensorBoard is watched", "remove it, or write `owner: tensorboard`")
        whole = len(self._problems) == noted
        return RuleDraft(name.value, name.place, match if whole else None, keeps, self._settings(said))

    def _name(self, rule: Node, node: Node | None) -> Placed[str] | None:
        if node is None:
            self._say(rule, "a rule without a name", "add `name:` with a short word for it")
            return None
        name = self._text(node, "a name")
        if name is not None and name.value == DEFAULT_RULE:
            self._say(node, f"the name {DEFAULT_RULE!r} stands for the rule made of `defaults`", "use another name")
        return name

    def _match(self, node: Node | None) -> Match:
        keys = self._section(node, "match", ("owner", "notebook", "kernelspec", "device", "state"))
        owner = self._word(keys.get("owner"), OwnerKind, "an owner")
        match = Match(
            owner=owner,
            notebook=self._glob(keys.get("notebook"), of_path=True),
            kernelspec=self._glob(keys.get("kernelspec")),
            device=self._glob(keys.get("device")),
            state=self._word(keys.get("state"), OwnerState, "a state", but=(OwnerState.UNKNOWN,)),
        )
        if owner not in {None, OwnerKind.KERNEL} and "kernelspec" in keys:
            self._say(keys["kernelspec"], "only a kernel has a kernelspec", "remove it, or write `owner: kernel`")
        if owner is OwnerKind.TERMINAL and "notebook" in keys:
            self._say(keys["notebook"], "a terminal has no notebook", "remove it, or write `owner: kernel`")
        return match

    def _glob(self, node: Node | None, *, of_path: bool = False) -> str | None:
        glob = self._text(node, "a pattern")
        if glob is None or node is None:
            return None
        if of_path and glob.value.startswith(("/", "./", "~")):
            right = glob.value.lstrip("~./") or "lectures/**"
            what = f"{glob.value!r} never matches: notebook paths start at the server's root folder"
            self._say(node, what, f"write for example {right!r}")
        return glob.value

    def _settings(self, keys: dict[str, Node]) -> Settings:
        idle = self._section(keys.get("idle"), "idle", ("compute_below", "memory_above", "for", "unwatched_for"))
        keep = self._section(keys.get("keep"), "keep", ("longest", "per_day", "reason"))
        asked = self._word(keep.get("reason"), Asked, "a way to ask for a reason")
        return Settings(
            compute_below=self._quantity(idle.get("compute_below"), _share),
            memory_above=self._quantity(idle.get("memory_above"), _memory),
            lasting=self._quantity(idle.get("for"), lasting),
            unwatched_for=self._quantity(idle.get("unwatched_for"), lasting),
            notice=self._quantity(keys.get("notice"), _span),
            longest=self._quantity(keep.get("longest"), _span),
            per_day=self._count(keep.get("per_day"), "a number of times", "write a larger number, or leave it out"),
            reason_required=None if asked is None else Placed(asked is Asked.REQUIRED, self._place(keep["reason"])),
            ladder=self._ladder(keys["ladder"]) if "ladder" in keys else None,
            trust_estimates=self._yes_or_no(keys.get("trust_estimates")),
        )

    def _ladder(self, node: Node) -> tuple[Placed[Stage], ...]:
        stages: list[Placed[Stage]] = []
        before = timedelta(0)
        for item in self._items(node, "ladder"):
            keys = self._mapping(item, "a stage", ("do", "after"))
            if keys is None:
                continue
            if "do" not in keys:
                self._say(item, "a stage that does nothing", "add `do: warn` or `do: shutdown`")
            after = keys.get("after")
            relative = isinstance(after, ScalarNode) and after.value.strip().startswith("+")
            delay = self._quantity(after, _delay)
            action = self._word(keys.get("do"), Action, "a stage", but=(Action.KEEP,))
            if action is None or (after is not None and delay is None):
                continue
            due = delay.value if delay else timedelta(0)
            if relative:
                due += before
            before = max(before, due)
            stages.append(Placed(Stage(action, due), delay.place if delay else self._place(item)))
        return tuple(stages)

    # What each kind of node must look like.

    def _place(self, node: Node) -> Place:
        return place_of(self._file, node.start_mark)

    def _say(self, node: Node, what: str, right: str) -> None:
        self._problems.append(Problem(self._place(node), what, right))

    def _section(self, node: Node | None, name: str, known: tuple[str, ...]) -> dict[str, Node]:
        return {} if node is None else self._mapping(node, repr(name), known) or {}

    def _mapping(self, node: Node, name: str, known: tuple[str, ...]) -> dict[str, Node] | None:
        if not isinstance(node, MappingNode):
            right = f"write keys such as {', '.join(known[:2])}"
            self._say(node, f"{name} must be {_SHAPES[MappingNode]}, not {_shape(node)}", right)
            return None
        found: dict[str, Node] = {}
        for key, value in node.value:
            word = key.value if isinstance(key, ScalarNode) else None
            if word is None:
                self._say(key, "a key must be a single word", suggestion("", known))
            elif word in found:
                self._say(key, f"{word!r} is given twice", "keep one of them")
            elif word not in known:
                self._say(key, f"{word!r} is not known in {name}", _right_key(word, known))
            else:
                found[word] = value
        return found

    def _items(self, node: Node | None, name: str, *, empty_is_fine: bool = False) -> Iterable[Node]:
        if node is None or (empty_is_fine and _is_empty(node)):
            return ()
        if not isinstance(node, SequenceNode):
            self._say(
                node, f"{name!r} must be {_SHAPES[SequenceNode]}, not {_shape(node)}", "start each item with `- `"
            )
            return ()
        if not node.value and not empty_is_fine:
            right = "leave it out, or write `for: never` in `idle` or `keep: true` in a rule to end nothing"
            self._say(node, f"{name!r} is empty", right)
        items: list[Node] = node.value
        return items

    def _scalar(self, node: Node, name: str, right: str) -> ScalarNode | None:
        if isinstance(node, ScalarNode) and node.value.strip():
            return node
        self._say(node, f"{name} must be {_SHAPES[ScalarNode]}, not {_shape(node)}", right)
        return None

    def _text(self, node: Node | None, name: str) -> Placed[str] | None:
        if node is None:
            return None
        scalar = self._scalar(node, name, "write a text")
        if scalar is None:
            return None
        if scalar.style is None and scalar.tag != "tag:yaml.org,2002:str":
            self._say(node, f"{scalar.value!r} is not read as a text by YAML", f'put it in quotes: "{scalar.value}"')
        return Placed(scalar.value, self._place(node))

    def _word(self, node: Node | None, words: type[E], name: str, *, but: tuple[E, ...] = ()) -> E | None:
        if node is None:
            return None
        known = {str(word.value): word for word in words if word not in but}
        scalar = self._scalar(node, name, suggestion("", known))
        if scalar is None:
            return None
        if scalar.value not in known:
            self._say(node, f"{scalar.value!r} is not {name}", suggestion(scalar.value, known))
        return known.get(scalar.value)

    def _yes_or_no(self, node: Node | None) -> Placed[bool] | None:
        if node is None or (scalar := self._scalar(node, "a yes or no", "write true or false")) is None:
            return None
        if scalar.value not in {"true", "false"}:
            self._say(node, f"{scalar.value!r} is neither true nor false", "write true or false")
        return Placed(scalar.value == "true", self._place(node))

    def _shutdowns(self, node: Node | None) -> int | None:
        count = self._count(node, "a number of shutdowns", "write `mode: observe` to end nothing")
        return None if count is None else count.value

    def _count(self, node: Node | None, name: str, instead_of_none: str) -> Placed[int] | None:
        if node is None or (scalar := self._scalar(node, name, "write for example 20")) is None:
            return None
        text = scalar.value.strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            self._say(node, f"{text!r} is not a whole number", "write for example 20")
        elif text.startswith("-") or not digits.strip("0"):
            self._say(node, f"{text} must be 1 or more", instead_of_none)
        elif len(digits) > len(str(MOST)) or int(digits) > MOST:
            self._say(node, f"{text} is no limit", f"write {MOST} or less")
        else:
            return Placed(int(digits), self._place(node))
        return None

    def _quantity(self, node: Node | None, parse: Callable[[str], T]) -> Placed[T] | None:
        if node is None:
            return None
        scalar = self._scalar(node, "a quantity", "write a number and its unit")
        if scalar is None:
            return None
        try:
            return Placed(parse(scalar.value), self._place(node))
        except QuantityError as error:
            self._say(node, error.what, error.right)
            return None


def lasting(text: str) -> timedelta | None:
    """How long idleness must last. `never`, 0 and anything below 0 mean never. Raises QuantityError."""
    if text.strip().lower() == "never":
        return None
    if text.strip().startswith("-") and text.strip().removeprefix("-").replace(".", "", 1).isdigit():
        return None  # a bare negative number needs no unit to mean never
    span = parse_duration(text)
    return span if span > timedelta(0) else None


def _span(text: str) -> timedelta:
    span = parse_duration(text)
    if span <= timedelta(0):
        raise QuantityError(f"{text!r} leaves people no time to answer", "write for example 15m")
    return span


def _delay(text: str) -> timedelta:
    delay = parse_duration(text)
    if delay < timedelta(0):
        raise QuantityError(f"{text!r} is negative", 'write for example 15m, or "+5m" after the stage before')
    return delay


def _share(text: str) -> float:
    share = parse_percent(text)
    if not 0 < share <= 100:  # noqa: PLR2004 - percent
        raise QuantityError(f"{text!r} is not between 0% and 100%", "write for example 5%")
    return share


def _memory(text: str) -> float:
    memory = parse_size(text)
    if memory <= 0:
        raise QuantityError(f"{text!r} would count what holds no GPU memory at all", "write for example 512MiB")
    return memory


def _within(node: Node | None, key: str) -> Node | None:
    pairs = node.value if isinstance(node, MappingNode) else ()
    return next((value for name, value in pairs if isinstance(name, ScalarNode) and name.value == key), None)


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and not node.value.strip()


def _shape(node: Node) -> str:
    return "empty" if _is_empty(node) else _SHAPES[type(node)]


def _right_key(word: str, known: tuple[str, ...]) -> str:
    home = _HOMES.get(word)
    return f"it belongs in {home}" if home else suggestion(word, known)
