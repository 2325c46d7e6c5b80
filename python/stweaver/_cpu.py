"""CPU tensors by the same allocator: real numbers where there is no GPU, e.g. to try a plan.

PyTorch's allocator interface is C++ and belongs to its version, so the adapter (cpu_adapter.cc, 40 lines) is compiled against
the installed headers, once for each version, and kept in $XDG_CACHE_HOME/stweaver.
"""

import ctypes
import hashlib
import os
import pathlib
import shlex
import subprocess
import tempfile

from . import _library


def install(error):
    lib = ctypes.CDLL(str(_adapter(error)))
    lib.stweaver_cpu_install(ctypes.c_void_p(_library.address("malloc")), ctypes.c_void_p(_library.address("release")))


def _adapter(error):
    import torch
    source = pathlib.Path(__file__).with_name("cpu_adapter.cc")
    home = pathlib.Path(torch.__file__).parent
    flags = ["-std=c++20", "-O2", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
             f"-I{home / 'include'}", f"-L{home / 'lib'}", "-lc10"]
    key = hashlib.sha256(source.read_bytes() + " ".join([torch.__version__, *flags]).encode()).hexdigest()[:12]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "stweaver"
    built = cache / f"cpu-{torch.__version__}-{key}.so"
    if built.exists():
        return built
    cache.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    with tempfile.TemporaryDirectory(dir=cache) as work:
        out = pathlib.Path(work) / built.name
        try:
            done = subprocess.run([*compiler, "-o", str(out), str(source), *flags], capture_output=True, text=True)
        except OSError as e:
            raise error(f'stweaver: install(device="cpu") needs a C++ compiler ($CXX, or c++): {e}') from e
        if done.returncode != 0:
            raise error("stweaver: the CPU adapter does not compile against this PyTorch:\n" + done.stderr[-2000:])
        os.replace(out, built)  # whole or not at all, whoever else does the same
    return built
