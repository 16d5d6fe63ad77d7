"""Policy files that change under a running server: when they are read again, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from jupyter_gpu_guard.core.policy import Mode, Policy
from jupyter_gpu_guard.policyfile import Governing, Person, PolicyError, load
from jupyter_gpu_guard.policyfile.watch import PolicyFiles
from jupyter_gpu_guard.server.following import PolicyFollower

OPTIONS = Policy(source="options")


class Room:
    """A site's folder, a file that is named, and who reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "etc" / "gpu-guard" / "policy.d"
        self.named = folder / "named.yaml"
        self.files = PolicyFiles(
            [self.named],
            lambda: OPTIONS,
            config_path=[str(folder / "etc")],
            who=Person(0, frozenset({0})),
        )

    def write(self, hours: int, name: str = "site.yaml") -> Path:
        """A policy file of the site."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_text(f"version: 1\ndefaults: {{idle: {{for: {hours}h}}}}\n", encoding="utf-8")
        return path

    def settled(self) -> Governing | PolicyError | None:
        """The news of a second look at the same files."""
        assert self.files.reread() is None
        return self.files.reread()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A room whose named file is empty of rules."""
    made = Room(tmp_path)
    made.named.write_text("version: 1\n", encoding="utf-8")
    return made


def hours(news: Governing | PolicyError | None) -> float:
    """The limit of the last rule."""
    assert isinstance(news, Governing), news
    lasting = news.policy.rules[-1].idle.lasting
    assert lasting is not None
    return lasting.total_seconds() / 3600


def test_files_that_stay_the_same_are_not_read_again(room: Room) -> None:
    """Not even if they are looked at for ever."""
    room.write(3)
    assert hours(room.files.read()) == 3
    assert [room.files.reread() for _ in range(5)] == [None] * 5


def test_a_change_is_read_once_it_has_settled(room: Room) -> None:
    """Files that are still being written, look by look, are left alone until they stay the same; then read once."""
    room.write(3)
    room.files.read()
    for size in (4, 10, 100):
        room.write(size)
        assert room.files.reread() is None
    assert hours(room.files.reread()) == 100
    assert room.files.reread() is None


def test_new_removed_and_replaced_files_are_changes(room: Room) -> None:
    """Also a folder that was not there before, and a file of the same length that is put in place of another."""
    assert hours(room.files.read()) == 2
    path = room.write(3)
    assert hours(room.settled()) == 3
    room.write(4, "zz.yaml")
    assert hours(room.settled()) == 4
    (room.folder / "zz.yaml").unlink()
    assert hours(room.settled()) == 3
    room.write(5, "site.new").replace(path)
    assert hours(room.settled()) == 5
    room.named.write_text("version: 1\ndefaults: {idle: {for: 6h}}\n", encoding="utf-8")
    assert hours(room.settled()) == 6


def test_rights_that_change_are_a_change(room: Room) -> None:
    """What everybody may write is not enforced; once mended it is."""
    path = room.write(3)
    path.write_text("version: 1\nmode: enforce\n", encoding="utf-8")
    room.files.read()
    path.chmod(0o666)
    news = room.settled()
    assert isinstance(news, Governing)
    assert news.policy.mode is Mode.OBSERVE  # the named file alone is left to decide
    path.chmod(0o644)
    news = room.settled()
    assert isinstance(news, Governing)
    assert news.policy.mode is Mode.ENFORCE


def test_without_any_file_the_options_decide(tmp_path: Path) -> None:
    """Also once the last file has been removed."""
    room = Room(tmp_path)
    room.files = PolicyFiles([], lambda: OPTIONS, config_path=[str(tmp_path / "etc")])
    assert room.files.read().policy == OPTIONS
    path = room.write(3)
    assert hours(room.settled()) == 3
    path.unlink()
    news = room.settled()
    assert isinstance(news, Governing)
    assert news.policy == OPTIONS


def test_a_file_that_is_missing_is_a_problem_until_it_is_there(room: Room) -> None:
    """It is said once, not at each look."""
    room.files.read()
    room.named.unlink()
    assert isinstance(room.settled(), PolicyError)
    assert room.files.reread() is None
    room.named.write_text("version: 1\n", encoding="utf-8")
    assert hours(room.settled()) == 2


class FakeGuard:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.published = self
        self.policy = OPTIONS
        self.asked: list[tuple[str, str]] = []

    def adopt(self, policy: Policy) -> None:
        """At once."""
        self.asked.append(("adopt", policy.source))

    def propose(self, policy: Policy) -> bool:
        """Perhaps."""
        self.asked.append(("propose", policy.source))
        return True

    def refuse(self, fault: str) -> None:
        """No."""
        self.asked.append(("refuse", fault.partition(": ")[0]))


class Scene:
    """A follower of the files in a room."""

    def __init__(self, room: Room) -> None:
        self.room, self.guard = room, FakeGuard()
        self.governed: list[bool] = []
        self.follower = PolicyFollower(room.files, logging.getLogger("test"), self.governed.append)

    def news(self) -> None:
        """Look until there are some, as the follower does."""
        found = self.room.settled()
        assert found is not None
        self.follower.take(self.guard, found)


def test_a_broken_file_at_the_start_observes_only_and_the_first_good_one_is_taken(room: Room) -> None:
    """There is nothing yet that it could be held against, so nobody is asked."""
    path = room.write(3)
    path.write_text("version: 1\nmode: enforced\n", encoding="utf-8")
    scene = Scene(room)
    policy = scene.follower.first()
    assert policy.mode is Mode.OBSERVE
    assert f"{path}:2:7" in str(policy.fault)
    room.write(4)
    scene.news()
    room.write(5)
    scene.news()
    assert [what for what, _ in scene.guard.asked] == ["adopt", "propose"]


def test_a_broken_file_later_is_refused_and_said_once(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """With file, line and column; the last good policy is not touched."""
    path = room.write(3)
    scene = Scene(room)
    assert scene.follower.first() == load([path, room.named])
    path.write_text("version: 1\nmode: enforced\n", encoding="utf-8")
    scene.news()
    assert scene.guard.asked == [("refuse", f"{path}:2:7")]
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


def test_a_look_that_fails_is_tried_again(room: Room) -> None:
    """And it is said once."""
    scene = Scene(room)
    scene.follower.first()

    async def play() -> None:
        real, looks = room.files.reread, []

        def failing() -> Governing | PolicyError | None:
            looks.append(1)
            if len(looks) < 4:
                raise OSError("the file system hangs")
            return real()

        scene.follower._look._call = failing
        following = asyncio.create_task(scene.follower.follow(scene.guard, 0.001))
        room.write(7)
        while not scene.guard.asked:  # noqa: ASYNC110 - it is asked
            await asyncio.sleep(0.001)
        following.cancel()

    asyncio.run(asyncio.wait_for(play(), 60))
    assert scene.guard.asked[0][0] == "propose"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_it_is_told_whether_the_site_governs(tmp_path: Path) -> None:
    """A policy that the person could not have written themselves governs them; options and their own do not."""
    room = Room(tmp_path)
    room.files = PolicyFiles([], lambda: OPTIONS, config_path=[str(tmp_path / "etc")], who=Person(54321, frozenset()))
    scene = Scene(room)
    scene.follower.first()
    path = room.write(3)
    scene.news()
    os.chown(path, 54321, 0)
    scene.news()
    assert scene.governed == [False, True, False]
