"""Whatever a policy file holds: a policy or problems, never a traceback; and no key that is not known gets through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpu_guard.core.policy import Policy
from jupyter_gpu_guard.policyfile import PolicyError, load
from jupyter_gpu_guard.policyfile.cases import read_cases

steady = settings(derandomize=True, deadline=None, database=None, max_examples=100)
FOLDER = Path(__file__).parents[1] / "deploy" / "policies"
SEEDS = [path.read_bytes() for path in sorted(FOLDER.glob("*.yaml"))]
TREES = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.yaml")) if "cases" not in path.name]
PIECES = [
    *(b"{", b"}", b"[", b"]", b": ", b"- ", b"? ", b"|\n", b">\n", b"%", b"\t", b"\n", b"  ", b"#", b"<<: ", b"~"),
    *(
        b"*a",
        b"&a ",
        b"!!python/object/apply:os.system ",
        b"---\n",
        b"...\n",
        b"\x00",
        b"\xff",
        b"\xe2\x80\xa8",
        b"'",
        b'"',
    ),
    *(b"0", b"-1", b"1e400h", b"9" * 40, b"never", b"2027-99-99", b"mon-fri 99:99-1:1", b"match", b"states", b"over"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of this module are written, one after the other."""
    return tmp_path_factory.mktemp("fuzz") / "p.yaml"


def answer(path: Path, content: bytes) -> Policy | None:
    """The policy in `content`, or None where there are problems; each of these can be said."""
    path.write_bytes(content)
    try:
        return load([path])
    except PolicyError as error:
        assert error.problems  # noqa: PT017 - either end is right
        assert all(str(problem).startswith(str(path)) for problem in error.problems)  # noqa: PT017
        return None


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """An example of a policy or of cases in which a few places are cut, doubled or overwritten."""
    content = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 5))):
        begin = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 12))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=3))
        content[begin : begin + length] = piece * draw(st.sampled_from([1, 1, 1, 40]))
    return bytes(content)


@steady
@given(content=mutated())
def test_broken_bytes_give_a_policy_or_problems(path: Path, content: bytes) -> None:
    """Read as a policy and as cases; what is taken ends in the catch-all."""
    policy = answer(path, content)
    assert policy is None or policy.rules[-1].name == "default"
    try:
        assert read_cases(path)
    except PolicyError as error:
        assert error.problems  # noqa: PT017


def mappings(tree: Any) -> list[dict[str, Any]]:
    """Every mapping in `tree`, but for that of the calendars, whose keys are names."""
    if isinstance(tree, list):
        return [found for item in tree for found in mappings(item)]
    if not isinstance(tree, dict):
        return []
    return [tree, *(found for name, value in tree.items() if name != "calendars" for found in mappings(value))]


def copied(tree: Any) -> Any:
    """A deep copy."""
    return yaml.safe_load(yaml.safe_dump(tree))


@steady
@given(data=st.data(), word=st.text("abcdefghijklmnopqrstuvwxyz_-", min_size=1, max_size=12))
def test_no_key_that_is_not_known_is_taken(path: Path, data: st.DataObject, word: str) -> None:
    """Wherever it stands: a key is known to the table of its mapping, or the file is refused."""
    tree = copied(data.draw(st.sampled_from(TREES)))
    where = data.draw(st.sampled_from(mappings(tree)))
    where[f"{word}x9"] = data.draw(st.sampled_from([1, "5%", True, [], {}, "keep"]))
    assert answer(path, yaml.safe_dump(tree).encode()) is None


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(["2h", "5%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@steady
@given(data=st.data(), value=values)
def test_any_value_at_any_place_gives_a_policy_or_problems(path: Path, data: st.DataObject, value: Any) -> None:
    """Of any type, also those that only YAML has."""
    tree = copied(data.draw(st.sampled_from(TREES)))
    where = data.draw(st.sampled_from(mappings(tree)))
    where[data.draw(st.sampled_from(sorted(where)))] = value
    answer(path, yaml.safe_dump(tree, allow_unicode=True).encode())


@steady
@given(data=st.data())
def test_only_the_order_of_files_and_of_rules_matters(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The order of keys changes nothing, nor does how rules are spread over files that stand in their order."""
    tree = copied(data.draw(st.sampled_from(TREES)))
    folder = tmp_path_factory.mktemp("order")
    whole = folder / "0.yaml"
    whole.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    expected = load([whole])
    for mapping in mappings(tree):
        items = data.draw(st.permutations(list(mapping.items())))
        mapping.clear()
        mapping.update(items)
    written, cut = tree.pop("rules"), data.draw(st.integers(0, 4))
    files = [tree, {"version": 1, "rules": written[:cut]}, {"version": 1, "rules": written[cut:]}]
    for number, content in enumerate(files, start=1):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    spread = load([folder / f"{number}.yaml" for number in (1, 2, 3)])
    assert (spread.rules, spread.mode, spread.belts) == (expected.rules, expected.mode, expected.belts)
    if 0 < cut < len(written) and "budgets" not in tree:  # the rule of a budget would hide others, were it before them
        turned = load([folder / f"{number}.yaml" for number in (1, 3, 2)])
        names = [rule["name"] for rule in [*written[cut:], *written[:cut]]]
        assert [rule.name for rule in turned.rules[:-1]] == names
