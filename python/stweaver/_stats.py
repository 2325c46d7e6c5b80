"""What the allocator did: our own counters, and PyTorch's statistics made from them.

A pluggable allocator has no statistics in PyTorch: memory_allocated() and its like raise. They all ask a handful of
functions of torch._C, so these are what is replaced, and every spelling of the question gets an answer.
"""

import json

from . import _install, _library


def _number(device):
    """A device as the library counts: an ordinal, or HOST."""
    if device is None:
        device = _install.installed()
    if device == "cpu":
        return _library.HOST
    import torch
    if isinstance(device, torch.device) and device.type == "cpu":
        return _library.HOST
    return torch.cuda._utils._get_device_index(device, optional=True)


def stats(device=None):
    """Counters of `device` ("cpu", "cuda", an index; default: the one installed for), bytes and counts as runtime/stw.h has
    them: hits, conflicts, live_bytes, peak_reserved_bytes, …, and hit_rate and efficiency from them. {} before its first request."""
    if not _install.installed():
        return {}
    s = json.loads(_library.text_of("stats", _number(device)))
    if s:
        planned = s["hits"] + s["conflicts"] + s["too_large"]
        s["hit_rate"] = s["hits"] / planned if planned else None
        s["efficiency"] = s["peak_live_bytes"] / s["peak_reserved_bytes"] if s["peak_reserved_bytes"] else None
    return s


def report(device=None):
    """The same for people, a few lines (runtime/REPORT.md); "" before the first request."""
    return _library.text_of("report", _number(device)) if _install.installed() else ""


# What stood in each counter when somebody asked for a fresh start of the sums, by device.
_base = {}

_SUMS = ("requests", "frees", "failed", "returned_bytes")


def _counted(current=0, peak=0, allocated=0, freed=0):
    return {"current": current, "peak": peak, "allocated": allocated, "freed": freed}


def _pools(row):
    """We have no pools for large and small requests: all is in one."""
    return {"all": row, "large_pool": dict(row), "small_pool": _counted()}


def _torch_stats(device):
    s = json.loads(_library.text_of("stats", device)) or dict.fromkeys(
        _SUMS + ("live_bytes", "peak_live_bytes", "reserved_bytes", "peak_reserved_bytes"), 0)
    for kind in ("live", "reserved"):  # memory of CUDA graphs: there is no record of its peak, so it counts as always there
        for name in (f"{kind}_bytes", f"peak_{kind}_bytes"):
            s[name] += s.get(f"pool_{kind}_bytes", 0)
    sums = {k: s[k] - _base.get(device, {}).get(k, 0) for k in _SUMS}
    served = s["requests"] - s["failed"]
    live = _pools(_counted(s["live_bytes"], s["peak_live_bytes"]))
    blocks = _pools(_counted(served - s["frees"], served - s["frees"], sums["requests"] - sums["failed"], sums["frees"]))
    return {
        "allocated_bytes": live, "active_bytes": live, "requested_bytes": live,
        "reserved_bytes": _pools(_counted(s["reserved_bytes"], s["peak_reserved_bytes"],
                                          s["reserved_bytes"] + sums["returned_bytes"], sums["returned_bytes"])),
        "inactive_split_bytes": _pools(_counted(s["reserved_bytes"] - s["live_bytes"])),
        "allocation": blocks, "active": blocks, "segment": _pools(_counted()), "inactive_split": _pools(_counted()),
        "oversize_allocations": _counted(), "oversize_segments": _counted(),
        "num_alloc_retries": 0, "num_ooms": sums["failed"], "num_sync_all_streams": 0, "num_device_alloc": 0,
        "num_device_free": 0, "num_oom_rejections": 0, "max_split_size": -1,
    }


def _reset_peaks(device):
    _library.load().stw_torch_reset_peaks(device)


def _reset_sums(device):
    s = json.loads(_library.text_of("stats", device))
    _base[device] = {k: s.get(k, 0) for k in _SUMS}


_ANSWERS = {  # in torch._C
    "_cuda_memoryStats": _torch_stats,
    "_cuda_resetPeakMemoryStats": _reset_peaks,
    "_cuda_resetAccumulatedMemoryStats": _reset_sums,
    "_accelerator_getDeviceStats": _torch_stats,
    "_accelerator_resetPeakStats": _reset_peaks,
    "_accelerator_resetAccumulatedStats": _reset_sums,
}


def serve_torch():
    """Makes torch.cuda's statistics (and torch.accelerator's) ours."""
    import torch
    for name, answer in _ANSWERS.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, answer)
