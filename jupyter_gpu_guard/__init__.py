"""jupyter-gpu-guard: no GPU held without work, and no work lost."""

from __future__ import annotations

from typing import Any

from ._version import __version__

__all__ = ["__version__"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Jupyter Server's door to the extension. Imported lazily, so that kernels can import this package cheaply."""
    from .server.extension import GpuGuard  # noqa: PLC0415

    return [{"module": "jupyter_gpu_guard", "app": GpuGuard}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """JupyterLab's door to the prebuilt front end."""
    return [{"src": "labextension", "dest": "jupyter-gpu-guard"}]
