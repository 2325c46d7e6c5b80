"""Installing the allocator in this process, before its first request for memory."""

import atexit
import ctypes
import os
import sys

from . import _library, _marks, _stats

_device = None  # "cuda" or "cpu" once installed


class InstallError(RuntimeError):
    """The allocator could not be installed; nothing has been changed."""


def installed():
    """The kind of device whose memory is ours, "cuda" or "cpu"; None: none."""
    return _device


def install(mode=None, plan=None, device="cuda", record=None, **conf):
    """Makes STWeaver the allocator of this process's tensors on `device`, "cuda" or "cpu".

    mode    "plan", "heap" (no plan: best fit), "record" (the heap, and a profile for `stweaver compile`) or "off".
            Default: what is given beside it says it, else $STWEAVER_MODE, else plan where $STWEAVER_PLAN is set, else heap.
    plan    path of the plan; {rank} is the process's rank, {device} its CUDA device. Default: $STWEAVER_PLAN.
    record  path of the profile, with {rank}. Default: stweaver.{rank}.stwp.
    conf    keys of $STWEAVER_CONF, which they override: capacity="80GiB", headroom, granularity, backend, log, report, …

    It comes before anything initialises CUDA, in every process. Raises InstallError, with what to do, where it comes too
    late or something given cannot be used. Afterwards torch.cuda.memory_allocated, memory_stats and their like, empty_cache and
    torch.OutOfMemoryError work as before. device="cpu" needs a C++ compiler at its first use on a machine.
    """
    global _device
    if mode is None and plan is not None:
        mode = "plan"
    if mode is None and record is not None:
        mode = "record"
    if (mode or os.environ.get("STWEAVER_MODE")) == "off":
        return
    if device not in ("cuda", "cpu"):
        raise InstallError(f'stweaver: device is "cuda" or "cpu", not {device!r}')
    if _device:
        raise InstallError(f"stweaver: installed already, for {_device}")
    _check(device)
    if record is not None:
        conf["record"] = record
    _set_up(mode, plan, conf)
    if device == "cuda":
        _install_cuda()
    else:
        from . import _cpu
        _cpu.install(InstallError)
    _device = device
    atexit.register(_library.load().stw_torch_close)  # the report while the interpreter still stands
    if mode == "record" or os.environ.get("STWEAVER_MODE") == "record":
        _marks.watch_optimizers()


def _check(device):
    import torch
    if device == "cpu":
        return
    if torch.version.cuda is None:
        raise InstallError('stweaver: this PyTorch is built without CUDA; install(device="cpu") serves CPU tensors')
    if torch.cuda.is_initialized():
        raise InstallError("stweaver: CUDA is initialised already, and its allocator cannot be changed any more; call install() before "
                           "anything uses CUDA (tensors, torch.cuda.init, libraries that do so when imported), or use "
                           "`python -m stweaver.run`")
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if os.environ.get(name):
            print(f"stweaver: {name} is for PyTorch's own allocator and has no effect here", file=sys.stderr)


def _set_up(mode, plan, conf):
    words = [os.environ.get("STWEAVER_CONF", "")]
    for key, value in conf.items():
        words.append(f"{key}:{int(value) if isinstance(value, bool) else value}")
    err = ctypes.create_string_buffer(8192)
    encode = lambda s: None if s is None else os.fspath(s).encode()
    text = ",".join(w for w in words if w)
    try:
        lib = _library.load()
    except OSError as e:
        raise InstallError(str(e)) from e
    if lib.stw_torch_setup(encode(mode), encode(plan), text.encode(), err, len(err)) != 0:
        raise InstallError("stweaver: " + err.value.decode(errors="replace"))


_HOOKS = {
    "set_reset_fn": "reset", "set_memory_fraction_fn": "memory_fraction", "set_base_alloc_fn": "base_alloc",
    "set_record_stream_fn": "record_stream", "set_begin_allocate_to_pool": "begin_pool", "set_end_allocate_to_pool_fn": "end_pool",
    "set_release_pool": "release_pool",
}


def _install_cuda():
    import torch
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(_library.path()), "stw_torch_malloc", "stw_torch_free")
    for setter, function in _HOOKS.items():
        if hasattr(allocator.allocator(), setter):  # names have changed between versions
            getattr(allocator.allocator(), setter)(_library.address(function))
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as e:
        raise InstallError(f"stweaver: PyTorch's allocator has been used already ({e}); call install() first of all") from e
    _stats.serve_torch()
    _keep_benchmark_off()


def _keep_benchmark_off():
    """cudnn.benchmark asks the allocator a question (cacheInfo) that PyTorch's pluggable ones raise at: convolutions would fail."""
    import torch
    change, said = torch._C._set_cudnn_benchmark, []

    def set_benchmark(on):
        if on and not said:
            said.append(True)
            print("stweaver: torch.backends.cudnn.benchmark stays off: PyTorch has no such thing with a pluggable allocator", file=sys.stderr)
        change(False)

    if torch._C._get_cudnn_benchmark():
        set_benchmark(True)
    torch._C._set_cudnn_benchmark = set_benchmark
    vars(type(torch.backends.cudnn))["benchmark"].setter = set_benchmark
