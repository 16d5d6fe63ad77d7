"""What runs inside a kernel."""

from __future__ import annotations

from .farewell import on_shutdown

__all__ = ["on_shutdown"]
