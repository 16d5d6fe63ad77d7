"""Which variables of this kernel hold memory on devices: what the person can see, `Out`, and the last error.

This text is also sent to kernels whose environment lacks the package, so it stands for itself and binds nothing
elsewhere. It imports no framework: an array of one that was never imported cannot exist.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEEPEST = 12  # steps into containers; each level of a model takes two
MOST = 200_000  # objects looked at

# Asked by their exact type: what an object says of its class is its own code.
_PLAIN = frozenset(
    (str, bytes, bytearray, int, float, complex, bool, type(None), type, type(sys), type(len), type(lambda: 0))
)


def variables(until: float = float("inf")) -> dict[str, Any]:
    """What each variable holds on devices, and what only the saved last error holds; the largest first.

    `rows` are `name`, `framework`, `device`, `arrays` and `bytes`; storage that several share is counted once, for the
    first of them. `cut`: there was more to look at than time until `until`, on the clock of `time.monotonic`.
    """
    shell = _shell()
    search = _Search(until)
    names = dict(shell.user_ns) if shell is not None else {}
    search.leave_out(shell, getattr(shell, "user_ns", None))  # who holds these does not hold all that is in them
    outputs = names.get("Out")
    rows = []
    for name, thing in names.items():
        if not name.startswith("_") and name not in ("In", "Out", "exit", "quit", "get_ipython"):
            rows += search.rows(name, [thing])
    if isinstance(outputs, dict):
        for number, thing in list(outputs.items()):
            rows += search.rows(f"Out[{number}]", [thing])
    for name, thing in names.items():
        if name.startswith("_"):
            rows += search.rows(name, [thing])
    for name, thing in _of_the_last_error():
        rows += search.rows(name, [thing], by_error=True)
    rows.sort(key=lambda row: -row["bytes"])
    return {"rows": rows, "cut": search.cut}


def held_by_the_last_error(until: float = float("inf")) -> float:
    """Bytes on devices that only the saved last error holds."""
    return float(sum(row["bytes"] for row in variables(until)["rows"] if row["by_error"]))


def forget_the_last_error() -> None:
    """Let go of the error that Python and IPython keep for a debugger, and with it of the variables of its frames."""
    for name in ("last_exc", "last_value", "last_traceback", "last_type"):
        if hasattr(sys, name):
            delattr(sys, name)
    shell = _shell()
    for name in ("InteractiveTB", "SyntaxTB"):
        keeper = getattr(shell, name, None)
        for kept in ("tb", "etype", "evalue", "last_syntax_error"):
            if getattr(keeper, kept, None) is not None:
                setattr(keeper, kept, None)
    result = getattr(shell, "last_execution_result", None)
    for kept in ("error_in_exec", "error_before_exec"):
        if getattr(result, kept, None) is not None:
            setattr(result, kept, None)


class _Search:
    """One search through variables. What was seen is not looked at twice."""

    def __init__(self, until: float) -> None:
        self.cut = False
        self._until = until
        self._looked = 0
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id is given to another object meanwhile
        self._storages: set[tuple[Any, ...]] = set()

    def leave_out(self, *things: Any) -> None:
        """Never look into these."""
        self._kept += things
        self._seen.update(map(id, things))

    def rows(self, name: str, things: list[Any], *, by_error: bool = False) -> list[dict[str, Any]]:
        """One row for each framework and device on which `things` hold something that was not counted before."""
        found: dict[tuple[str, str], list[float]] = {}
        for framework, device, key, size in self._storages_in(things):
            if (device, key) not in self._storages:
                self._storages.add((device, key))
                found.setdefault((framework, device), []).append(size)
        return [
            {
                "name": name,
                "framework": framework,
                "device": device,
                "arrays": len(sizes),
                "bytes": float(sum(sizes)),
                "by_error": by_error,
            }
            for (framework, device), sizes in found.items()
        ]

    def _storages_in(self, things: list[Any]) -> Iterator[tuple[str, str, Any, float]]:
        level = list(things)
        for _ in range(DEEPEST):
            deeper: list[Any] = []
            for thing in level:
                if type(thing) in _PLAIN or id(thing) in self._seen:
                    continue
                self._looked += 1
                if self._looked > MOST or time.monotonic() > self._until:
                    self.cut = True
                    return
                self._seen.add(id(thing))
                self._kept.append(thing)
                storages, parts = _looked_into(thing)
                yield from storages
                deeper += parts
            level = deeper


def _shell() -> Any:
    """The IPython shell of this process, or None."""
    module = sys.modules.get("IPython")
    get = getattr(module, "get_ipython", None)
    return get() if get is not None else None


def _of_the_last_error() -> Iterator[tuple[str, Any]]:
    """The variables in the frames of the error that is saved for a debugger, and of those that led to it."""
    pending = [getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)]
    seen: set[int] = set()
    tracebacks = [getattr(sys, "last_traceback", None)]
    while pending:
        error = pending.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        tracebacks.append(error.__traceback__)
        pending += [error.__cause__, error.__context__]
    frames: set[int] = set()
    for start in tracebacks:
        traceback = start
        while traceback is not None:
            frame, traceback = traceback.tb_frame, traceback.tb_next
            if id(frame) in frames or frame.f_globals is frame.f_locals or _is_machinery(frame):
                continue  # of the cell itself, the variables are the person's
            frames.add(id(frame))
            for name, thing in list(frame.f_locals.items()):
                yield f"last error, in {frame.f_code.co_name}: {name}", thing


def _is_machinery(frame: Any) -> bool:
    """Whether it is a frame of IPython, which has everything."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("IPython", "ipykernel", "traitlets")


def _looked_into(thing: Any) -> tuple[list[tuple[str, str, Any, float]], list[Any]]:
    """The storages of an array, or the parts of anything else. It may be of anyone's class: if it raises, neither."""
    try:
        storages = list(_array(thing))
        return storages, [] if storages else _parts(thing)
    except Exception:  # noqa: BLE001
        return [], []


def _parts(thing: Any) -> list[Any]:
    """What is in a container, or in the attributes of an object."""
    if isinstance(thing, dict):
        return [*thing.values(), *thing.keys()]
    if isinstance(thing, (list, tuple, set, frozenset)):
        return list(thing)
    parts: list[Any] = []
    with suppress(AttributeError):  # it may have only slots, or nothing at all
        parts += object.__getattribute__(thing, "__dict__").values()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member: Any = kind.__dict__.get(name)
            if type(member).__name__ == "member_descriptor" and hasattr(thing, name):
                parts.append(member.__get__(thing))
    return parts


# ---- what an array is, by framework ----


def _array(thing: Any) -> Iterable[tuple[str, str, Any, float]]:
    """The framework, device, identity and bytes of each storage of an array on a device; nothing if it is none."""
    for module, read in (("torch", _torch), ("cupy", _cupy), ("jax", _jax), ("tensorflow", _tensorflow)):
        loaded = sys.modules.get(module)
        if loaded is not None:
            found = read(loaded, thing)
            if found is not None:
                return found
    if hasattr(type(thing), "__cuda_array_interface__"):  # Numba, RMM, PyCUDA and whoever else speaks it
        seen = thing.__cuda_array_interface__
        size = _item_size(seen["typestr"])
        for length in seen["shape"]:
            size *= length
        return [(type(thing).__module__.partition(".")[0], "cuda", seen["data"][0], size)]
    return []


def _torch(torch: Any, thing: Any) -> list[tuple[str, str, Any, float]] | None:
    if not isinstance(thing, torch.Tensor):
        return None
    found: list[tuple[str, str, Any, float]] = []
    tensors = [thing, thing.grad] if thing.is_leaf else [thing]
    for tensor in tensors:
        if tensor is None or tensor.device.type in ("cpu", "meta"):
            continue
        try:
            storage = tensor.untyped_storage()
            key, size = storage.data_ptr(), storage.nbytes()
        except (NotImplementedError, RuntimeError):  # a sparse tensor has no storage of its own
            key, size = ("sparse", id(tensor)), tensor._nnz() * tensor.element_size()  # noqa: SLF001
        found.append(("PyTorch", str(tensor.device), key, float(size)))
    return found


def _cupy(cupy: Any, thing: Any) -> list[tuple[str, str, Any, float]] | None:
    if not isinstance(thing, cupy.ndarray):
        return None
    memory = thing.data.mem
    return [("CuPy", f"cuda:{thing.device.id}", memory.ptr, float(memory.size))]


def _jax(jax: Any, thing: Any) -> list[tuple[str, str, Any, float]] | None:
    if not isinstance(thing, jax.Array) or not hasattr(thing, "addressable_shards"):
        return None
    if thing.is_deleted():
        return []
    found: list[tuple[str, str, Any, float]] = []
    for shard in thing.addressable_shards:
        if shard.device.platform != "cpu":
            place = f"{shard.device.platform}:{shard.device.id}"
            found.append(("JAX", place, shard.data.unsafe_buffer_pointer(), float(shard.data.nbytes)))
    return found


def _tensorflow(tensorflow: Any, thing: Any) -> list[tuple[str, str, Any, float]] | None:
    if not isinstance(thing, (tensorflow.Tensor, tensorflow.Variable)):
        return None
    place = str(thing.device)
    if "GPU:" not in place:
        return []
    size = (thing.shape.num_elements() or 0) * thing.dtype.size
    return [("TensorFlow", "gpu:" + place.rpartition("GPU:")[2], id(thing), float(size))]


def _item_size(kind: str) -> float:
    """Bytes of one item, of a type such as `<f4`."""
    digits = kind.lstrip("<>|=")[1:]
    return float(digits) if digits.isdigit() else 1.0
