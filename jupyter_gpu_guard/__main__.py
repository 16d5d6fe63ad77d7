"""`python -m jupyter_gpu_guard` is `jupyter gpu-guard`."""

from jupyter_gpu_guard.cli import main

main()
