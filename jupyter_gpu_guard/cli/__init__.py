"""`jupyter gpu-guard`: the words of the sidebar in a shell. It asks the guards of running servers and decides nothing.

Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jupyter_gpu_guard import __version__

from .acting import keep, park, release, shutdown, unkeep
from .asking import give_up as _give_up
from .asking import json_option as _json_option
from .asking import print_json as _print_json
from .asking import seconds_of as _seconds
from .asking import server_option as _server_option
from .asking import servers_to_ask as _servers
from .parking import parked, resume

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE = click.Path(path_type=Path)
_user_option = click.option("--user", metavar="NAME", help="Whose server it was, for rules that match a user.")
_group_option = click.option(
    "--group", "groups", metavar="NAME", multiple=True, help="A group of that user; may be repeated."
)
_server_name_option = click.option(
    "--server", "server_name", metavar="NAME", help="The name of that server, for rules that match one."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def main() -> None:
    """See which notebook holds which GPU, and what will be given back when."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a notebook's name shows a question mark, not a traceback.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


for _command in (keep, unkeep, release, park, parked, resume, shutdown):
    main.add_command(_command)


@main.command()
@_server_option
@_json_option
def status(server: str | None, *, as_json: bool) -> None:
    """Show what the guard of each running server reports."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, ask  # noqa: PLC0415

    from .tables import console, report_view  # noqa: PLC0415

    answers: list[dict[str, Any]] = []
    for each in _servers(server, as_json=as_json):
        try:
            answers.append({"url": each.url, "report": ask(each, "report")})
        except (NoAnswerError, NotFoundError) as error:
            answers.append({"url": each.url, "report": None, "error": str(error)})
    if as_json:
        _print_json({"servers": answers})
    for answer in answers:
        if answer["report"] is not None and not as_json:
            try:
                console().print(report_view(answer["url"], answer["report"]))
            except (KeyError, TypeError, ValueError, AttributeError):
                answer["error"] = f"{answer['url']} answers no report that this version can read."
        if "error" in answer:
            click.echo(answer["error"], err=True)
    if all("error" in answer for answer in answers):
        sys.exit(1)


@main.command()
@click.argument("wanted", metavar="OWNER|NOTEBOOK")
@_server_option
@_json_option
def explain(wanted: str, server: str | None, *, as_json: bool) -> None:
    """Say why one notebook or owner (kernel:<id>, terminal:<name>, tensorboard:<id>) is kept or not."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError  # noqa: PLC0415

    from .explaining import explanations  # noqa: PLC0415
    from .tables import name_of, plain  # noqa: PLC0415

    try:
        found = explanations(wanted, _servers(server, as_json=False))
    except (NoAnswerError, NotFoundError) as error:
        _give_up(str(error))
    if as_json:
        _print_json({"explanations": found})
        return
    for each in found:
        holder = each["holder"]
        click.echo(f"{plain(name_of(holder))} ({plain(holder['owner'])})")
        for line in each["lines"]:
            click.echo(f"  {plain(line)}")


@main.command()
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="TIME",
    help="From so long ago, such as 12h, or from a moment on.",
)
@click.option("--owner", metavar="OWNER|NOTEBOOK", help="Only about this one.")
@click.option(
    "--folder", "folders", multiple=True, type=_FILE, help="Read this audit folder, and ask no server; may be repeated."
)
@_server_option
@_json_option
def audit(since: str, owner: str | None, folders: Sequence[Path], server: str | None, *, as_json: bool) -> None:
    """Say what was done to whom and why, and what was not.

    While no server runs, this reads what those of this user have written.
    """
    from datetime import datetime, timezone  # noqa: PLC0415

    from jupyter_gpu_guard.quantities import parse_since  # noqa: PLC0415
    from jupyter_gpu_guard.running import running_servers  # noqa: PLC0415

    from .auditing import audit_view, from_folders, from_servers, own_folder  # noqa: PLC0415
    from .tables import console  # noqa: PLC0415

    try:
        first = parse_since(since, datetime.now(timezone.utc))
    except ValueError as error:
        _give_up(f"--since: {error}")
    if not folders and server is None and not running_servers():
        folders = (own_folder(),)
    answer = (
        from_folders(folders, first, owner)
        if folders
        else from_servers(_servers(server, as_json=as_json), since, owner)
    )
    if as_json:
        _print_json(answer)
    elif answer["entries"]:
        console().print(audit_view(answer))
    elif not answer["errors"]:
        click.echo("Nothing was written down in this time.")
    for kind, what in (("left_out", "older entries are left out"), ("unreadable", "lines cannot be read")):
        if answer[kind]:
            click.echo(f"{answer[kind]} {what}.", err=True)
    for sentence in answer["errors"]:
        click.echo(sentence, err=True)
    if answer["errors"] and not answer["entries"]:
        sys.exit(1)


@main.group()
def policy() -> None:
    """Work with policy files."""


@policy.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=_FILE)
def check(files: Sequence[Path]) -> None:
    """Check policy files together, and show the rules that they make.

    Without FILE: those that the server would read from gpu-guard/policy.d in Jupyter's configuration folders.
    """
    from jupyter_gpu_guard.policyfile import PolicyError, discover, govern, load  # noqa: PLC0415

    from .policies import notes, policy_view  # noqa: PLC0415
    from .tables import console  # noqa: PLC0415

    paths = tuple(files) or discover()
    if not paths:
        click.echo("There are no policy files; these are the built-in defaults.")
    try:
        read = load(paths)
        governing = read if files or not paths else govern(paths, ()).policy
    except PolicyError as error:
        _give_up(str(error))
    if governing.fault:  # well written, but not by whoever may say so
        _give_up(governing.fault)
    for path in paths:
        click.echo(f"{path}: fine")
    console().print(policy_view(read))
    for note in notes(read):
        click.echo(note)


@policy.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=_FILE)
@_json_option
def show(files: Sequence[Path], *, as_json: bool) -> None:
    """Show each rule with all its values, and the file and line that each comes from.

    Without FILE: those that the server would read from gpu-guard/policy.d in Jupyter's configuration folders.
    """
    from jupyter_gpu_guard.policyfile import PolicyError, discover  # noqa: PLC0415
    from jupyter_gpu_guard.policyfile.provenance import trace  # noqa: PLC0415

    from . import policies  # noqa: PLC0415

    try:
        traced = trace(tuple(files) or discover())
    except PolicyError as error:
        _give_up(str(error))
    if as_json:
        _print_json(policies.as_json(traced))
        return
    for line in policies.shown(traced):
        click.echo(line)


@policy.command()
@click.option("--cases", is_flag=True, help="The schema of a cases file instead.")
def schema(*, cases: bool) -> None:
    """Print the JSON Schema of a policy file, for editors."""
    from jupyter_gpu_guard.policyfile.schema import cases_schema, json_schema  # noqa: PLC0415

    _print_json(cases_schema() if cases else json_schema())


@policy.command("test")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=_FILE)
@click.option(
    "--policy", "policies", metavar="FILE", type=_FILE, multiple=True, help="Judge by these files instead, together."
)
def try_(files: Sequence[Path], policies: Sequence[Path]) -> None:
    """Judge the holders in cases files, and say where a policy says otherwise than expected.

    FILE is site.cases.yaml, or the policy site.yaml beside it. Without FILE: all cases files in the folders that the
    server reads, judged by all policy files there.
    """
    from jupyter_gpu_guard.policyfile import PolicyError, discover  # noqa: PLC0415

    from .policies import cases_beside, try_cases  # noqa: PLC0415

    paths, by = tuple(files), tuple(policies)
    if not paths:
        by = by or discover()
        paths = cases_beside(by)
    if not paths:
        _give_up("There are no cases files; name one, such as site.cases.yaml beside site.yaml.")
    failed = False
    try:
        for tried in try_cases(paths, by):
            for failure in tried.failures:
                click.echo(str(failure))
            kept = tried.cases - tried.failed
            click.echo(f"{tried.path}: {kept} of {tried.cases} cases as expected")
            failed |= bool(tried.failures)
    except PolicyError as error:
        _give_up(str(error))
    sys.exit(1 if failed else 0)


@policy.command()
@click.argument("wanted", metavar="OWNER|NOTEBOOK")
@_server_option
@_json_option
def why(wanted: str, server: str | None, *, as_json: bool) -> None:
    """Say why a rule decides about one notebook or owner, and why those before it do not."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError  # noqa: PLC0415

    from .explaining import explanations  # noqa: PLC0415
    from .policies import why_lines  # noqa: PLC0415

    try:
        found = explanations(wanted, _servers(server, as_json=False))
    except (NoAnswerError, NotFoundError) as error:
        _give_up(str(error))
    if as_json:
        _print_json({"explanations": found})
        return
    for each in found:
        for line in why_lines(each):
            click.echo(line)


@policy.command()
@_server_option
@click.option("--yes", is_flag=True, help="Ask no question.")
def accept(server: str | None, *, yes: bool) -> None:
    """Put a policy in force that waits for a person, because it would newly end many at once."""
    from jupyter_gpu_guard.running import NoAnswerError, NotFoundError, ask, tell  # noqa: PLC0415

    from .tables import pending_lines  # noqa: PLC0415

    accepted = waiting = 0
    try:
        for each in _servers(server, as_json=False):
            waits = ask(each, "policy")["pending"]
            if waits is None:
                continue
            waiting += 1
            for line in pending_lines(each.url, waits):
                click.echo(line)
            if yes or click.confirm("Put it in force?"):
                tell(each, "policy/accept", {"hash": waits["hash"]})
                click.echo(f"Policy {waits['hash']} is in force.")
                accepted += 1
    except (NoAnswerError, NotFoundError) as error:
        _give_up(str(error))
    if not waiting:
        _give_up("No policy waits for anybody.")
    sys.exit(0 if accepted == waiting else 1)


@main.command()
@_json_option
def doctor(*, as_json: bool) -> None:
    """Say in plain words what works here, what does not, and what would help."""
    from jupyter_gpu_guard.doctor import Level, examine  # noqa: PLC0415

    findings = examine()
    usable = not any(finding.level is Level.PROBLEM for finding in findings)
    if as_json:
        _print_json({"usable": usable, "checks": [finding.as_dict() for finding in findings]})
    else:
        colours = {Level.OK: "green", Level.NOTE: "yellow", Level.PROBLEM: "red"}
        for finding in findings:
            click.secho(f"{finding.level.value:>7}  ", fg=colours[finding.level], nl=False)
            click.echo(f"{finding.check}: {finding.says}")
            if finding.remedy:
                click.echo(f"         {finding.remedy}")
    sys.exit(0 if usable else 1)


@main.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8888, show_default=True, help="Where JupyterLab listens."
)
@click.option("--no-browser", is_flag=True, help="Open no browser; print the address instead.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("gpu-guard-demo"),
    show_default=True,
    help="Where the demo notebooks are put; what is there already stays as it is.",
)
@click.argument("extra", metavar="[-- OPTION...]", nargs=-1, type=click.UNPROCESSED)
def demo(port: int, folder: Path, extra: Sequence[str], *, no_browser: bool) -> None:
    """Open JupyterLab with a notebook that holds GPU memory, under a policy of seconds.

    Without an NVIDIA driver the GPUs are simulated. With one they are real, and nothing is ended. What follows -- is
    given to JupyterLab.
    """
    from .demonstration import DemoError, run  # noqa: PLC0415

    try:
        run(folder, port=port, browser=not no_browser, extra=extra, say=click.echo)
    except DemoError as error:
        _give_up(str(error))


@main.command()
@click.argument("file", type=_FILE)
@click.option("--server", metavar="URL|PORT", help="Record this server, by its port or URL.")
@click.option(
    "--interval", metavar="TIME", help="Ask so often, for example 30s. Otherwise as often as the server looks."
)
@click.option("--duration", metavar="TIME", help="End after this time, for example 1h. Otherwise with Ctrl-C.")
@click.option("--names", is_flag=True, help="With the names of notebooks, sessions and log directories.")
@click.option("--force", is_flag=True, help="Replace FILE, whatever it holds.")
def record(
    file: Path, server: str | None, interval: str | None, duration: str | None, *, names: bool, force: bool
) -> None:
    """Write what the guard of a server sees to FILE, look by look; a recording that is there goes on."""
    from .recording import CannotRecordError, Recorder  # noqa: PLC0415

    servers = _servers(server, as_json=False)
    if len(servers) > 1:
        _give_up("Several servers are running; name one with --server: " + ", ".join(each.url for each in servers))
    every, lasting = _seconds("--interval", interval), _seconds("--duration", duration)
    recorder = Recorder(servers[0], file, every, names, force)
    shows = sys.stderr.isatty()

    def progress(recorder: Recorder) -> None:
        waiting = ", the server does not answer" if recorder.silent_for else ""
        click.echo(f"\r{recorder.written} snapshots{waiting}\x1b[K", nl=False, err=True)

    try:
        recorder.record(lasting, progress if shows else lambda _: None)
    except CannotRecordError as error:
        _give_up(str(error))
    except KeyboardInterrupt:
        pass
    if shows:
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(recorder.summary())


@main.command()
@click.argument("file", type=_FILE)
@click.option(
    "--policy", "policies", metavar="FILE", type=_FILE, multiple=True, help="A policy file; more than one may be given."
)
@_user_option
@_group_option
@_server_name_option
@_json_option
def replay(
    file: Path,
    policies: Sequence[Path],
    user: str | None,
    groups: Sequence[str],
    server_name: str | None,
    *,
    as_json: bool,
) -> None:
    """Say what would have been done to what is recorded in FILE, when and why. Nothing is done.

    Without --policy: under the policy files that the server would read here, or the built-in defaults.
    """
    from jupyter_gpu_guard.core.policy import Policy, Site  # noqa: PLC0415
    from jupyter_gpu_guard.policyfile import PolicyError, discover, load  # noqa: PLC0415

    from .replaying import RecordingError, replay  # noqa: PLC0415

    try:
        paths = tuple(policies) or discover()
        ruled = load(paths) if paths else Policy()
        replayed = replay(file, ruled, site=Site(user, frozenset(groups), server_name))
    except (PolicyError, RecordingError) as error:
        _give_up(str(error))
    if as_json:
        _print_json(replayed.as_json(file, ruled))
        return
    for line in replayed.lines(file, ruled):
        click.echo(line)


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option(
    "--policy",
    "policies",
    metavar="FILE|FOLDER",
    type=_FILE,
    multiple=True,
    help="A policy; give more to compare.",
)
@click.option(
    "--regret", metavar="TIME", default="24h", show_default=True, help="Who computes again within it was needed."
)
@_user_option
@_group_option
@_server_name_option
@click.option("--interval", metavar="TIME", help="The time between two points of a series, if its first do not tell.")
@click.option("--processes", type=click.IntRange(min=1), help="At most so many at once; otherwise one for each core.")
@_json_option
def simulate(
    files: Sequence[Path],
    policies: Sequence[Path],
    regret: str,
    user: str | None,
    groups: Sequence[str],
    server_name: str | None,
    interval: str | None,
    processes: int | None,
    *,
    as_json: bool,
) -> None:
    """Say what policies would have come to over recordings and CSV series: what is reclaimed, and what is lost.

    Each --policy is one policy: a file, or all files in a folder. Without any: the policy files that the server would
    read here, or the built-in defaults.
    """
    from rich.progress import Progress  # noqa: PLC0415

    from jupyter_gpu_guard.core.policy import Site  # noqa: PLC0415
    from jupyter_gpu_guard.policyfile import PolicyError, discover, load  # noqa: PLC0415

    from . import simulating  # noqa: PLC0415
    from .tables import console  # noqa: PLC0415

    within, every = _seconds("--regret", regret) or 0.0, _seconds("--interval", interval)
    try:
        ruled = [load(_files_of(path)) for path in policies] or [load(discover())]
        with Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task("Simulating", total=None)
            simulated = simulating.simulate(
                files,
                ruled,
                interval=every,
                processes=processes,
                site=Site(user, frozenset(groups), server_name),
                progress=lambda done, whole: bar.update(task, completed=done, total=whole),
            )
    except (PolicyError, simulating.SeriesError, simulating.RecordingError) as error:
        _give_up(str(error))
    if as_json:
        _print_json(simulating.as_json(ruled, simulated, within))
    else:
        console().print(simulating.view(ruled, simulated, within))


def _files_of(path: Path) -> Sequence[Path]:
    """The policy files that `path` stands for."""
    return sorted(path.glob("*.yaml")) if path.is_dir() else (path,)
