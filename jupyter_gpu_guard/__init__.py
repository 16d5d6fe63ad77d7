"""jupyter-gpu-guard: no GPU held without work, and no work lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .kernel.farewell import on_shutdown

__all__ = ["__version__", "on_shutdown"]


def __getattr__(name: str) -> Any:
    """What is for kernels comes from there, when it is asked for: a server has no use for it."""
    if name == "on_shutdown":
        from .kernel.farewell import on_shutdown  # noqa: PLC0415

        return on_shutdown
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """IPython's door: `%load_ext jupyter_gpu_guard` brings `%gpu_guard`."""
    from .kernel.magics import register  # noqa: PLC0415

    register(shell)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Jupyter Server's door to the extension. Imported lazily, so that kernels can import this package cheaply."""
    from .server.extension import GpuGuard  # noqa: PLC0415

    return [{"module": "jupyter_gpu_guard", "app": GpuGuard}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """JupyterLab's door to the prebuilt front end."""
    return [{"src": "labextension", "dest": "jupyter-gpu-guard"}]
