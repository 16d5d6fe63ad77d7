"""What holds for all tests."""

from __future__ import annotations

import signal

# Whoever runs the tests in the background may have signals ignored, and what is started here would inherit that.
for number in (signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
