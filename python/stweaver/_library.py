"""libstweaver.so: where it is, and its functions as ctypes sees them (runtime/torch/stw_torch.h)."""

import ctypes
import functools
import os
import pathlib

HOST = -1  # the device number of CPU memory
ITERATION, PHASE, ENTER, LEAVE = 1, 2, 3, 4  # kinds of marks (runtime/stw_record.h)


def path():
    """The library: $STWEAVER_LIBRARY, else beside this file (installed), else the checkout's build folder."""
    here = pathlib.Path(__file__).resolve().parent
    chosen = os.environ.get("STWEAVER_LIBRARY")
    places = [pathlib.Path(chosen)] if chosen else [here / "libstweaver.so", here.parents[1] / "build" / "libstweaver.so"]
    for p in places:
        if p.is_file():
            return p
    raise FileNotFoundError("stweaver: no libstweaver.so at " + " or ".join(map(str, places)) + "; `make so` builds it")


@functools.lru_cache(maxsize=None)
def load():
    lib = ctypes.CDLL(str(path()))
    text, size, number = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    for name, result, arguments in (
        ("setup", number, (text, text, text, text, size)),
        ("mark", None, (ctypes.c_uint32, ctypes.c_int64, text)),
        ("stats", size, (number, text, size)),
        ("report", size, (number, text, size)),
        ("reset_peaks", None, (number,)),
        ("close", None, ()),
    ):
        function = getattr(lib, "stw_torch_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


def address(name):
    """The address of a function, for C++ to call."""
    return ctypes.cast(getattr(load(), "stw_torch_" + name), ctypes.c_void_p).value


def text_of(name, device):
    """What a function (int device, char *out, size_t room) writes."""
    function = getattr(load(), "stw_torch_" + name)
    room = 4096
    while True:
        out = ctypes.create_string_buffer(room)
        n = function(device, out, room)
        if n < room:
            return out.value.decode()
        room = n + 256
