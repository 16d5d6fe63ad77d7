"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest

# Whoever runs the tests in the background may have signals ignored, and what is started here would inherit that.
for number in (signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """Say at once what has failed: whoever stops the tests early wants to know."""
    if report.failed and not hasattr(report, "wasxfail"):
        print(f"\n{report.when} of {report.nodeid} failed:\n{report.longreprtext[-4000:]}", flush=True)
