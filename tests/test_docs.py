"""The README and the docs say what the code does: a setting, route, event or command without a word fails here.

What must be documented is asked of the code itself, never of a copy.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from markdown_it import MarkdownIt
from pydantic import ValidationError
from traitlets import Undefined

from jupyter_gpu_guard import policyfile
from jupyter_gpu_guard.cli import main
from jupyter_gpu_guard.core.budget import Measure, Per
from jupyter_gpu_guard.core.model import OwnerKind, OwnerState, Why
from jupyter_gpu_guard.core.policy import STAGES, Mode, Policy
from jupyter_gpu_guard.core.verdict import Code, Protection, Result
from jupyter_gpu_guard.policyfile.cases import EXPECT, GIVEN, failures, read_cases
from jupyter_gpu_guard.server import wire
from jupyter_gpu_guard.server.extension import EVENTS, GpuGuard
from jupyter_gpu_guard.server.handlers import ROUTES, GuardHandler

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jupyter_gpu_guard"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
CONFIGURATION, POLICY, DECIDES = (
    ROOT / "docs" / f"{name}.md" for name in ("configuration", "policy", "how-it-decides")
)


# ---- reading pages ----


class Block(NamedTuple):
    """One block of code: its language and whatever else stands behind the fence, and its text."""

    page: Path
    info: str
    text: str


@cache
def tokens(page: Path) -> tuple[Any, ...]:
    """The parsed page, with what is inside of lines too."""
    found = []
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        found += [token, *(token.children or ())]
    return tuple(found)


def blocks(info: str, *pages: Path) -> list[Block]:
    """Every block with exactly this behind its fence."""
    return [
        Block(page, info, token.content)
        for page in pages or PAGES
        for token in tokens(page)
        if token.type == "fence" and token.info == info
    ]


def code(*pages: Path) -> Iterator[tuple[Path, str]]:
    """Everything that is set as code: spans, and the lines of blocks."""
    for page in pages or PAGES:
        for token in tokens(page):
            if token.type == "code_inline":
                yield page, token.content
            elif token.type == "fence":
                yield from ((page, line) for line in token.content.splitlines())


def spans(text: str) -> set[str]:
    """The code spans of `text`."""
    return set(re.findall(r"`([^`\n]+)`", text))


def section(page: Path, heading: str) -> str:
    """What stands between `heading` and the next heading of the same level or above."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    level = next((re.match("#+", line)[0] for line in lines if line.lstrip("#").strip() == heading), None)
    assert level is not None, f"{page.name} has no heading {heading!r}"
    body = []
    for line in lines:
        found = re.match("(#+) ", line)
        if found and len(found[1]) <= len(level):
            break
        body.append(line)
    return "\n".join(body)


def titles(page: Path, beginning: str) -> set[str]:
    """The headings that are code and begin like this (a regular expression), such as one for each route."""
    return set(re.findall(rf"^### `({beginning}[^`]+)`", page.read_text(encoding="utf-8"), re.MULTILINE))


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the tables in `text` by the code spans of their first cell."""
    found = {}
    for line in text.splitlines():
        if line.startswith("|"):
            first, *rest = (cell.strip() for cell in line.strip("|").split(" | "))
            found.update(dict.fromkeys(spans(first), rest))
    return found


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    found = set()
    for before, token in zip(tokens(page), tokens(page)[1:], strict=False):
        if before.type == "heading_open":
            plain = re.sub(r"[^\w\- ]", "", token.content.lower())
            found.add(plain.replace(" ", "-"))
    return found


# ---- what the code has ----


def options() -> Mapping[str, Any]:
    """The configurable traits of the extension."""
    return GpuGuard.class_own_traits(config=True)


def default_of(trait: Any) -> str | None:
    """How the docs write a default; None: it is worked out at run time."""
    if trait.name in {name.removeprefix("_default_") for name in vars(GpuGuard) if name.startswith("_default_")}:
        return None
    value = [] if trait.default_value is Undefined else trait.default_value
    return json.dumps(value)


def policy_keys(folder: Path) -> set[str]:
    """Every key of a policy file, by its own reader: an unknown key is answered with the known ones.

    A key inside a mapping is given with it, `idle.for`; those of a rule and of a stage stand alone.
    """
    stranger, path = "xyzzy", folder / "policy.yaml"
    said = re.compile(rf"'{stranger}' is not known in .*?; write (.*)")
    found: set[str] = set()

    def explore(wrap: Any, prefix: str) -> None:
        path.write_text(yaml.safe_dump(wrap({stranger: 1})), encoding="utf-8")
        with pytest.raises(policyfile.PolicyError) as error:
            policyfile.load([path])
        known = [
            match[1]
            for problem in error.value.problems
            if (match := said.fullmatch(f"{problem.what}; {problem.right}"))
        ]
        for key in re.split(", | or ", known[0]) if known else ():
            inside = "" if key in {"defaults", "rules", "exemptions", "budgets", "ladder"} else f"{prefix}{key}."
            found.add(prefix + key)
            explore(lambda inner, key=key: wrap({key: inner}), inside)
            explore(lambda inner, key=key: wrap({key: [inner]}), inside)

    explore(lambda inner: {"version": 1, **inner}, "")
    return found


def routes() -> list[tuple[str, str]]:
    """Method and address of every route but the one for what is not there."""
    found = []
    for pattern, handler in ROUTES:
        path = pattern.replace("([^/]+)", "{owner}").removeprefix("/gpu-guard/api/v1/")
        if "(" not in path:
            methods = ("get", "post", "put", "patch", "delete")
            found += [(m.upper(), path) for m in methods if getattr(handler, m) is not getattr(GuardHandler, m)]
    return found


def event_schemas() -> list[dict[str, Any]]:
    """The event schemas that are registered."""
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(EVENTS.glob("*.yaml"))]


def environment_variables() -> set[str]:
    """Every text in the package that is written like the name of an environment variable, but for those of sysconf."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.findall(r"\A[A-Z]{2,}(?:_[A-Z0-9]+)+\Z", node.value))
    return {name for name in found if not name.startswith("SC_")}


def commands(group: click.Group = main, prefix: str = "jupyter gpu-guard") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its whole name."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


# ---- documented ----


@pytest.mark.parametrize("place", [(CONFIGURATION, "Options"), (ROOT / "README.md", "Configuration at a glance")])
def test_every_option_is_documented_with_its_default(place: tuple[Path, str]) -> None:
    """Each trait has a row in both tables, with the default that it has; and no row is about nothing."""
    table = {name: cells for name, cells in rows(section(*place)).items() if not name.startswith("c.")}
    assert set(table) == set(options())
    for name, trait in options().items():
        if (default := default_of(trait)) is not None:
            assert table[name][0] == f"`{default}`", name


def test_the_readme_names_every_route() -> None:
    """By its last words, in one item of its list."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    items = re.findall(r"^- \*\*REST\*\*: (.*?)(?=^- )", page, re.DOTALL | re.MULTILINE)
    assert len(items) == 1
    named = {name.removeprefix("gpu-guard/api/v1/") for name in re.findall(r"`([^`]+)`", items[0])}
    assert named == {re.sub(r"^owners/\{owner\}/|/\{owner\}$", "", path) for _, path in routes()}


def test_options_named_anywhere_exist() -> None:
    """`c.GpuGuard.NAME` and `--GpuGuard.NAME` are real; `NAME` itself stands for any."""
    for page, text in code():
        for name in re.findall(r"GpuGuard\.(\w+)", text):
            assert name in {*options(), "NAME"}, f"{page.name}: {name}"


def test_every_policy_key_is_documented(tmp_path: Path) -> None:
    """Each key that the reader knows has a row, under the mapping that it belongs to; and no row is about nothing."""
    known = policy_keys(tmp_path)
    assert {
        "version",
        "idle.for",
        "match.notebook",
        "belts.shutdowns_per_tick",
        "do",
    } <= known  # else the probe is broken
    assert set(rows(section(POLICY, "All keys"))) == known


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("mode", {mode.value for mode in Mode}),
        ("match.owner", {kind.value for kind in OwnerKind}),
        ("match.state", {state.value for state in OwnerState} - {OwnerState.UNKNOWN.value, OwnerState.PARKED.value}),
        ("do", {action.value for action in STAGES}),
        ("per", {per.value for per in Per}),
        ("measure", {measure.value for measure in Measure}),
    ],
)
def test_every_word_of_a_policy_is_documented(key: str, words: set[str]) -> None:
    """A key with a choice lists exactly the choices there are."""
    assert spans(rows(section(POLICY, "All keys"))[key][0]) == words


def test_every_route_is_documented() -> None:
    """Each method of each address has a section of its own, and each section an address."""
    written = {
        tuple(span.split()) for span in re.findall(r"^### `([A-Z]+ [^`]+)`", CONFIGURATION.read_text(), re.MULTILINE)
    }
    assert written == set(routes())


def test_every_event_is_documented_with_its_fields() -> None:
    """Each schema has a section by its name, and each of its fields a row."""
    schemas = event_schemas()
    assert len(schemas) > 1
    for schema in schemas:
        assert set(rows(section(CONFIGURATION, f"`{schema['$id']}`"))) == set(schema["properties"]), schema["$id"]


def test_every_environment_variable_is_documented() -> None:
    """Each has a row."""
    assert set(rows(section(CONFIGURATION, "Environment variables"))) == environment_variables()


def test_every_command_and_option_is_documented() -> None:
    """Each command has a section, and each of its options a row, in its long form."""
    everything = dict(commands())
    assert len(everything) > 1
    assert titles(CONFIGURATION, "jupyter gpu-guard ") == set(everything)
    for name, command in everything.items():
        options_of = {o.opts[0] for o in command.params if isinstance(o, click.Option)}
        assert set(rows(section(CONFIGURATION, f"`{name}`"))) == options_of, name


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("Reasons", Code),
        ("Not known", Why),
        ("Protections", Protection),
        ("Results", Result),
        ("States", OwnerState),
    ],
)
def test_every_coded_word_is_documented(heading: str, words: Any) -> None:
    """Whatever the report gives as a code has a row that says what it means."""
    assert set(rows(section(DECIDES, heading))) == {word.value for word in words}


# ---- true ----


def test_examples_of_policies_load(tmp_path: Path) -> None:
    """Every YAML block is a policy, and is read without a problem."""
    examples = blocks("yaml")
    assert {block.page.name for block in examples} >= {"README.md", "policy.md"}
    for number, block in enumerate(examples):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block.text, encoding="utf-8")
        assert policyfile.load([path]).rules[-1].name == "default", block


def test_examples_of_cases_hold(tmp_path: Path) -> None:
    """Each block of cases is as expected under the example policy that has such rules."""
    examples = blocks("yaml cases")
    assert examples
    rules = (
        "version: 1\ntimezone: Europe/Berlin\ncalendars: {work: mon-fri 08:00-18:00}\nrules:\n"
        "  - {name: lectures, match: {notebook: 'lectures/**', during: work}, keep: true}\n"
        "  - {name: students, match: {group: students}, idle: {for: 30m}}\n"
    )
    path = tmp_path / "site.yaml"
    path.write_text(rules, encoding="utf-8")
    for block in examples:
        cases = tmp_path / "site.cases.yaml"
        cases.write_text(block.text, encoding="utf-8")
        assert failures(read_cases(cases), policyfile.load([path])) == []


def test_every_fact_of_a_case_is_documented() -> None:
    """What may be given and expected has a row each, and no row is about nothing."""
    table = rows(section(POLICY, "Tests of a policy"))
    assert set(table) - {"given", "expect"} == {*GIVEN.keys, *EXPECT.keys}


def test_the_built_in_defaults_are_those_of_the_code(tmp_path: Path) -> None:
    """The block that shows what nothing needs to say makes the same policy as no file at all."""
    block = re.search(r"```yaml\n(.*?)```", section(POLICY, "The built-in defaults"), re.DOTALL)
    assert block is not None
    path = tmp_path / "defaults.yaml"
    path.write_text(block[1], encoding="utf-8")
    assert replace(policyfile.load([path]), digest="", source=Policy().source) == Policy()


def test_the_mistakes_shown_are_answered_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong example gives word for word the messages below it."""
    (wrong,) = blocks("yaml wrong")
    (messages,) = (block for block in blocks("text", wrong.page) if block.text.startswith("policy.yaml:"))
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(wrong.text, encoding="utf-8")
    with pytest.raises(policyfile.PolicyError) as error:
        policyfile.load([Path("policy.yaml")])
    assert str(error.value).splitlines() == messages.text.splitlines()


def test_examples_of_json_are_what_goes_over_the_wire() -> None:
    """Each JSON block is one of the models, with no field that does not exist; each kind of answer has an example."""
    models = [wire.WireReport, wire.WireExplanation, wire.WireHealth, wire.WireKeep, wire.WireLease, wire.WireOutcome]
    models += [wire.WireError, wire.WireEffectivePolicy, wire.WireAccept, wire.WireAudit]
    shown = set()
    for block in blocks("json"):
        fitting = [model for model in models if _fits(model, block.text)]
        assert fitting, block
        shown.update(fitting)
    assert shown == set(models) - {wire.WireExplanation}  # its holder is shown in the report, its lines as text


def _fits(model: Any, text: str) -> bool:
    """Whether `text` is such a model; what the code always says may be left out of an example, if it is null."""
    try:
        model.model_validate_json(text)
    except ValidationError:
        return False
    return True


def test_examples_of_python_compile() -> None:
    """No typing error in what people copy."""
    assert blocks("python")
    for block in blocks("python"):
        compile(block.text, str(block.page), "exec")


def test_command_lines_name_what_there_is() -> None:
    """Each `jupyter gpu-guard …` in a page is a command with options that it has."""
    seen = set()
    for page, text in code():
        for line in re.findall(r"(?:jupyter gpu-guard|python -m jupyter_gpu_guard)((?: [^\s#]+)*)", text):
            before: list[str] = []
            for part in line.split(" | "):
                command = _command(page, before + part.split())
                seen.add(command.name)
    assert seen >= {command.name for _, command in commands()}


def _command(page: Path, words: list[str]) -> click.Command:
    """The command that `words` call. Fails if there is none, or if it has not all of the options."""
    command: click.Command = main
    for word in words:
        if word == "--":
            break
        if word.startswith("-"):
            known = {name for option in command.params for name in option.opts} | {"--help", "-h"}
            assert word.partition("=")[0] in known, f"{page.name}: {' '.join(words)}"
        elif isinstance(command, click.Group):
            assert word in command.commands, f"{page.name}: {' '.join(words)}"
            command = command.commands[word]
    return command


def test_make_targets_exist() -> None:
    """Whoever follows a page finds the target."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {(page.name, target) for page, text in code() for target in re.findall(r"\bmake ([a-z][\w-]*)", text)}
    assert {target for _, target in named} >= {"run", "test", "lint"}
    assert {(page, target) for page, target in named if target not in targets} == set()


def test_links_lead_somewhere() -> None:
    """Each link within the repository has its file, and its heading. Pictures may yet be taken by the browser test."""
    taken = set(re.findall(r'picture\(page, "([\w-]+)"\)', (ROOT / "tests/e2e/test_browser.py").read_text("utf-8")))
    assert "sidebar" in taken
    pictures = {ROOT / "docs" / "images" / f"{name}.png" for name in taken}
    dead = []
    for page in PAGES:
        for token in tokens(page):
            target = token.attrs.get("href") or token.attrs.get("src")
            if target is None or re.match(r"[a-z]+:", str(target)):
                continue
            path, _, anchor = str(target).partition("#")
            file = (page.parent / path).resolve() if path else page
            if not (file.exists() or file in pictures) or (anchor and anchor not in anchors(file)):
                dead.append(f"{page.name}: {target}")
    assert dead == []


def test_pictures_have_words() -> None:
    """Whoever cannot see a picture is told what is on it; the README shows the sidebar."""
    shown = {}
    for page in PAGES:
        for token in tokens(page):
            if token.type == "image":
                shown[token.attrs["src"]] = token.content
    assert "docs/images/sidebar.png" in shown
    assert all(len(words) > 20 for words in shown.values())


def test_tests_that_are_named_exist() -> None:
    """The page on safety rests on tests: each is there under its name."""
    named = [(page, text) for page, text in code() if "::test_" in text]
    assert len(named) > 20
    for page, text in named:
        file, _, name = text.partition("::")
        path = ROOT / file
        assert path.exists(), f"{page.name}: {text}"
        assert re.search(rf"^\s*(async )?def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE), (
            f"{page.name}: {text}"
        )


def test_files_that_are_named_exist() -> None:
    """A path of this repository in a page is a path in this repository."""
    for page, text in code():
        for path in re.findall(
            r"(?<![\w/.~-])(?:docs|tests|deploy|scripts|labextension|jupyter_gpu_guard)/[\w/.-]*\w", text
        ):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
