"""What people are told when it is not known who uses a device, with what would help."""

from __future__ import annotations

from jupyter_gpu_guard.core.model import Gap, Unknown, Why

ESTIMATED = (
    "who is on it is an estimate, because this container cannot see its own GPU processes: nothing is ended on it "
    "unless a rule trusts estimates."
)


def who_is_unknown(why: Unknown) -> str:
    """Say why it is not known who uses a device, and what would help."""
    if why.why is Why.FIRST_READING:
        return f"the next reading tells which processes use it: {why.detail}."
    if why.why is Why.PIDS_HIDDEN:
        return (
            "this container cannot see its own GPU processes, because the driver names them by the host's numbers: "
            "update the driver to 570 or later, or start the container in the host's pid namespace. For a notebook "
            "that is alone on its GPU, c.GpuGuard.estimate_sole_owner = True gives an estimate."
        )
    if why.why is Why.IMPLAUSIBLE:
        return (
            f"the driver's list of processes is not used: {why.detail}; update the NVIDIA driver and nvidia-ml-py, and "
            "restart this server."
        )
    if why.why is Why.NO_PERMISSION:
        return "this user may not see which processes use it: an administrator can allow it."
    if why.why is Why.NOT_SUPPORTED:
        return "this driver does not say which processes use it, so nothing can be judged."
    return f"the driver does not say which processes use it ({why.detail}): see `nvidia-smi` and the system log."


def nameless(index: int, why: Unknown) -> Gap:
    """A device that has never told its UUID. What nobody here can use makes nothing unknown elsewhere."""
    said = f"GPU {index} does not answer ({why.detail}): see `nvidia-smi` and the system log."
    return Gap(f"device {index}" if is_unusable(why) else "devices", said)


def instances_unknown(why: Unknown) -> str:
    """Say why it is not known which instances a GPU is divided into."""
    return f"the driver does not say which MIG instances it has ({why.detail}): see `nvidia-smi -L`."


def is_unusable(why: Unknown) -> bool:
    """Whether no process of this user can compute on a device that answers so."""
    return why.why in {Why.DEVICE_LOST, Why.NO_PERMISSION}
