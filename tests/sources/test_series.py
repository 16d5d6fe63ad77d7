"""CSV series are read point by point, and whatever is wrong in them is said with its place."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpu_guard.core.model import OwnerState
from jupyter_gpu_guard.core.policy import Policy
from jupyter_gpu_guard.core.series import Point, SeriesSimulation
from jupyter_gpu_guard.sources.series import MIB, MISSING, SeriesError, parts, points
from tests.core.build import steady


def written(folder: Path, text: str) -> Path:
    """A file with this text."""
    path = folder / "day.csv"
    path.write_text(text, encoding="utf-8")
    return path


def everything(path: Path) -> dict[str, list[Point]]:
    """The points of each series."""
    return {part.name: list(points(part)) for part in parts(path)}


def test_series_are_told_apart(tmp_path: Path) -> None:
    """Each by its name, in the order of the file; other columns are passed over."""
    text = (
        "time,who,series,compute_percent,memory_mib,state\n0,x,a,1.5,10,idle\n5,x,a,2,10,executing\n0,y,b,0,20,idle\n"
    )
    assert everything(written(tmp_path, text)) == {
        "a": [Point(0, 1.5, 10 * MIB), Point(5, 2, 10 * MIB, OwnerState.EXECUTING)],
        "b": [Point(0, 0, 20 * MIB)],
    }


def test_a_file_without_names_is_one_series(tmp_path: Path) -> None:
    """Named like the file. Without a state it is taken for idle: nothing is known that would spare it."""
    path = written(tmp_path, "\ufefftime, compute_percent, memory_bytes\r\n0,0,1\r\n\r\n1,100,2\r\n")
    assert everything(path) == {"day": [Point(0, 0, 1), Point(1, 100, 2)]}


def test_an_empty_cell_is_not_known(tmp_path: Path) -> None:
    """Never 0."""
    path = written(tmp_path, "time,compute_percent,memory_bytes\n0,,1\n1,7, \n")
    assert everything(path) == {"day": [Point(0, MISSING, 1), Point(1, 7, MISSING)]}


def test_times_may_be_those_of_a_calendar(tmp_path: Path) -> None:
    """ISO 8601 with a zone: the seconds between them are right, also across zones."""
    rows = "2026-03-01T09:30:00Z,0,1\n2026-03-01T10:31:00+01:00,0,1\n"
    first, second = everything(written(tmp_path, f"time,compute_percent,memory_bytes\n{rows}"))["day"]
    assert second.at - first.at == 60


def test_names_may_hold_commas(tmp_path: Path) -> None:
    """In quotes, as CSV has it."""
    text = 'series,time,compute_percent,memory_bytes\n"a, b",0,0,1\n"a, b",1,0,1\nc,0,0,1\n'
    assert {name: len(found) for name, found in everything(written(tmp_path, text)).items()} == {"a, b": 2, "c": 1}


HEAD = "series,time,compute_percent,memory_mib,state\n"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("", 1, "no column `memory_bytes` or `memory_mib`; the first line names time, compute_percent"),
        ("time,compute_pct,memory_mib\n", 1, "no column `compute_percent`; rename 'compute_pct' to 'compute_percent'"),
        ("time,compute_percent,memory_mib,memory_bytes\n", 1, "both `memory_bytes` or `memory_mib`; give one of them"),
        (f"{HEAD}a,0,0,1,idle\na,0,0,1,idle\n", 3, "this is not later than the row above; sort the rows by `time`"),
        (f"{HEAD}a,0,0,1,idle\na,soon,0,1,idle\n", 3, "'soon' is no time; write seconds, or a time such as"),
        (f"{HEAD}a,2026-03-01T09:30:00,0,1,idle\n", 2, "is no time; write seconds, or a time such as"),
        (f"{HEAD}a,1767225600000,0,1,idle\n", 2, "'1767225600000' is no time; write seconds"),
        (f"{HEAD}a,nan,0,1,idle\n", 2, "'nan' is no time; write seconds"),
        (f"{HEAD}a,0,101,1,idle\n", 2, "'101' is out of range; compute is a percentage from 0 to 100"),
        (f"{HEAD}a,0,nan,1,idle\n", 2, "'nan' is out of range"),
        (f"{HEAD}a,0,0,-1,idle\n", 2, "'-1' is out of range"),
        (f"{HEAD}a,0,0,inf,idle\n", 2, "'inf' is out of range"),
        (f"{HEAD}a,0,N/A,1,idle\n", 2, "'N/A' is no number; leave a cell empty that is not known"),
        (f"{HEAD}a,0,0,1,asleep\n", 2, "'asleep' is no state; write one of idle, executing"),
        (f"{HEAD}a,0,0,1,idle\n\na,5,0\n", 4, "this row is too short"),
        (f"{HEAD},0,0,1,idle\n", 2, "no name in the column `series`; give each row one"),
        (f"{HEAD}a,0,0,1,idle\nb,0,0,1,idle\na,5,0,1,idle\n", 4, "'a' goes on after another series has begun"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, where: int, says: str) -> None:
    """File, line, what is wrong, and what would be right."""
    path = written(tmp_path, text)
    with pytest.raises(SeriesError) as caught:
        everything(path)
    assert str(caught.value).startswith(f"{path}:{where}: ")
    assert says in str(caught.value)


cells = st.one_of(
    st.sampled_from(["", "0", "5", "5.5", "-6e10", "1e400", "nan", "1_0", "2026-03-01T09:30:00Z", "0001-01-01T00:00Z"]),
    st.sampled_from(["idle", "a", "\x00", '"', '"a\n', "\ud7ff", ",", "\r"]),
    st.text(max_size=5),
)


@steady
@given(st.lists(st.lists(cells, max_size=6), max_size=8), st.booleans())
def test_nonsense_is_refused_with_its_place(rows: list[list[str]], has_head: bool) -> None:
    """Whatever stands in a file: it is read and can be judged, or refused in a sentence; never a traceback."""
    text = (HEAD if has_head else "") + "\n".join(",".join(row) for row in rows)
    with TemporaryDirectory() as folder:
        path = Path(folder, "day.csv")
        path.write_bytes(text.encode(errors="surrogatepass"))
        found, refusal = dict[str, list[Point]](), f"{path}:"
        try:
            found = everything(path)
        except SeriesError as error:
            refusal = str(error)
    assert refusal.startswith(f"{path}:")
    for name, read in found.items():
        simulation = SeriesSimulation(name, Policy(), 10.0, short=False)
        for point in read:
            simulation.see(point)


def test_a_cell_beyond_all_measure(tmp_path: Path) -> None:
    """Is no CSV, wherever it stands."""
    for text in (f'"{"a" * 200_000}', f'{HEAD}"{"a" * 200_000}",0,0,1,idle\n', f'{HEAD}a,0,"{"a" * 200_000}",1,idle\n'):
        with pytest.raises(SeriesError, match=r"no CSV|no column"):
            everything(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Is said in a sentence."""
    with pytest.raises(SeriesError, match="No such file"):
        everything(tmp_path / "none.csv")
