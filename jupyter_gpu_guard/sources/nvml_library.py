"""NVIDIA's library as values: an answer, an Unknown, or Trouble with the driver as a whole. Nothing else gets out."""

from __future__ import annotations

import ctypes
import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_gpu_guard.core.model import Unknown, Why

from .nvml_lists import LISTS, read_list

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0

_NEEDED = ("NVMLError", "nvmlInit", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization")

SUCCESS, UNINITIALIZED, NOT_FOUND, DRIVER_NOT_LOADED = 0, 1, 6, 9
INSUFFICIENT_SIZE, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, LIB_RM_VERSION_MISMATCH = 7, 12, 13, 18

_MORE_TRIES = 3

_WHY = {
    3: Why.NOT_SUPPORTED,
    4: Why.NO_PERMISSION,
    6: Why.NOT_AVAILABLE,  # not found
    10: Why.NOT_READ,  # timeout
    13: Why.NOT_SUPPORTED,  # function not found
    15: Why.DEVICE_LOST,
    16: Why.DEVICE_LOST,  # reset required
    21: Why.NOT_AVAILABLE,  # no data
    25: Why.NOT_SUPPORTED,  # argument version mismatch
    26: Why.NOT_SUPPORTED,  # deprecated
    27: Why.NOT_AVAILABLE,  # not ready
}

# These say nothing about one device: the driver or the library is gone for all of them.
_TROUBLE = {
    UNINITIALIZED: "The connection to the NVIDIA driver was closed by another part of this server; it is opened again.",
    4: "This user may not talk to the NVIDIA driver: let the user read and write /dev/nvidiactl and /dev/nvidia*.",
    DRIVER_NOT_LOADED: "The NVIDIA driver is not loaded: see whether `nvidia-smi` works, and load it or reboot.",
    LIBRARY_NOT_FOUND: "No NVIDIA driver here (libnvidia-ml.so.1 is not found): install the driver, or start the "
    "container with its GPUs.",
    FUNCTION_NOT_FOUND: "The NVIDIA driver is too old for nvidia-ml-py: update the driver.",
    LIB_RM_VERSION_MISMATCH: "The NVIDIA driver and its library have different versions, as after an update: reboot, "
    "or reload the driver and restart this server.",
    28: "The NVIDIA driver finds no GPU: see `nvidia-smi` and the system log.",
}
_TROUBLE_IN_ANY_CALL = {UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH}


class TroubleError(Exception):
    """No device can be read now. The text is a sentence for people that names a remedy."""


# A function, a form of it, and the device.
_Question = tuple[str, str, "int | None"]


def _address(handle: Any) -> int | None:
    """Names the device of a handle as long as the driver is open; None: it is no handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value if isinstance(handle, ctypes._Pointer) else None  # noqa: SLF001


def _question(name: str, form: str, arguments: tuple[Any, ...]) -> _Question:
    return name, form, _address(arguments[0]) if arguments else None


class NvmlLibrary:
    """`pynvml`, loaded when first needed, initialised once, and after trouble tried again more and more slowly."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._nvml: Any = None
        self._is_open = False
        self._trouble = ""
        self._pause = FIRST_PAUSE
        self._again_at = float("-inf")
        self._answered: set[_Question] = set()
        self._absent: dict[_Question, Unknown] = {}

    def open(self) -> bool:
        """Make sure that the driver is open; True if it was opened only now. Raises TroubleError."""
        if self._is_open:
            return False
        if self._monotonic() < self._again_at:
            raise TroubleError(self._trouble)
        try:
            self._load()
            self._initialise()
        except TroubleError as trouble:
            self._rest(trouble)
            raise
        self._answered.clear()
        self._absent.clear()
        self._is_open = True
        return True

    def is_well(self) -> None:
        """Say that a whole reading went through: the next trouble is a new one."""
        self._pause = FIRST_PAUSE

    def give_up(self, trouble: TroubleError) -> None:
        """After trouble in a call, close the driver and leave it alone for a while."""
        if self._is_open:
            self.close()
            self._rest(trouble)

    def _rest(self, trouble: TroubleError) -> None:
        self._trouble = str(trouble)
        self._again_at = self._monotonic() + self._pause
        self._pause = min(LONGEST_PAUSE, self._pause * 2)

    def close(self) -> None:
        """Let go of the driver. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            self._answer(self._nvml.nvmlShutdown)

    def offers(self, name: str) -> bool:
        """Whether this version of `pynvml` knows the function; the driver may still not."""
        return hasattr(self._nvml, name)

    def ask(self, name: str, *arguments: Any, form: str = "") -> Any:
        """Call one function: what it answers, or Unknown. Raises TroubleError if the driver is gone for all devices.

        What is not supported is asked once for each device, the first argument. `form` tells apart questions that share
        a function.
        """
        question = _question(name, form, arguments)
        if question in self._absent:
            return self._absent[question]
        code, answer = self._call(name, *arguments)
        if code is None:
            self._answered.add(question)
            return answer
        return self._refused(question, code, str(answer))

    def ask_rows(self, name: str, *arguments: Any) -> list[Any] | Unknown:
        """Call a function that answers rows: "nothing found", and an error whose code is success, are no rows."""
        question = _question(name, "", arguments)
        if question in self._absent:
            return self._absent[question]
        code, answer = self._call(name, *arguments)
        if code is not None and code not in {SUCCESS, NOT_FOUND}:
            return self._refused(question, code, str(answer))
        self._answered.add(question)
        return list(answer) if code is None else []

    def release(self, name: str, what: Any) -> None:
        """Give something back to the driver, as far as it takes it."""
        self._answer(getattr(self._nvml, name), what)

    def structure(self, name: str) -> Any:
        """A new structure of `pynvml`, to be passed to one of its functions."""
        return getattr(self._nvml, name)()

    def refusal(self, code: int) -> Unknown | None:
        """What an error code means that the driver gave inside an answer; None: no error."""
        return None if code == SUCCESS else Unknown(_WHY.get(code, Why.DRIVER_ERROR), f"error {code}")

    def forget(self, handle: Any) -> None:
        """What the device of this handle supports may have changed."""
        gone = _address(handle)
        self._answered = {question for question in self._answered if question[2] != gone}
        self._absent = {question: why for question, why in self._absent.items() if question[2] != gone}

    def _refused(self, question: _Question, code: int, said: str) -> Unknown:
        why = _WHY.get(code, Why.DRIVER_ERROR)
        if why is Why.NOT_SUPPORTED:
            if question in self._answered:
                # The absence of a list or of an engine means "none there" only where it never was there.
                return Unknown(Why.DRIVER_ERROR, f"{said}, to a question that it has answered before")
            if question[2] is not None:
                self._absent[question] = Unknown(why, said)
        return Unknown(why, said)

    def _call(self, name: str, *arguments: Any) -> tuple[int | None, Any]:
        if name not in LISTS and not self.offers(name):
            return FUNCTION_NOT_FOUND, f"nvidia-ml-py has no {name}"
        function = partial(read_list, self._nvml, name) if name in LISTS else getattr(self._nvml, name)
        code, answer = self._answer(function, *arguments)
        for _ in range(_MORE_TRIES):
            if code != INSUFFICIENT_SIZE:
                break
            # `pynvml` asks for the size first, and then somebody was born.
            code, answer = self._answer(function, *arguments)
        if code in _TROUBLE_IN_ANY_CALL:
            raise TroubleError(_sentence(code, str(answer)))
        return code, answer

    def _answer(self, function: Callable[..., Any], *arguments: Any) -> tuple[int | None, Any]:
        """Call `function`: (None, what it returned) or (error code, the error). Not every error is an NVMLError."""
        try:
            return None, function(*arguments)
        except self._nvml.NVMLError as error:
            return int(error.value), error
        except Exception as error:  # noqa: BLE001 - a library's fault must not stop the guard
            return -1, error

    def _load(self) -> None:
        if self._nvml is not None:
            return
        try:
            module = importlib.import_module("pynvml")
        except Exception as error:  # noqa: BLE001 - whatever an unknown module does when it is imported
            if isinstance(error, ModuleNotFoundError) and error.name == "pynvml":
                raise TroubleError("The Python package nvidia-ml-py is missing: pip install nvidia-ml-py") from None
            raise TroubleError(f"The Python module pynvml cannot be imported ({error}): {_REINSTALL}") from None
        missing = [name for name in _NEEDED if not hasattr(module, name)]
        if missing or hasattr(module, "__path__"):  # NVIDIA's own is one file; a package hides it
            where = getattr(module, "__file__", None) or "an unknown place"
            raise TroubleError(f"The Python module pynvml at {where} is not the one of nvidia-ml-py: {_REINSTALL}")
        self._nvml = module

    def _initialise(self) -> None:
        code, answer = self._answer(self._nvml.nvmlInit)
        if code is not None:
            raise TroubleError(_sentence(code, str(answer)))


_REINSTALL = "pip uninstall -y pynvml nvidia-ml-py && pip install nvidia-ml-py, then restart this server"


def _sentence(code: int, said: str) -> str:
    return _TROUBLE.get(code) or f"The NVIDIA driver does not answer ({said}): see `nvidia-smi` and the system log."
