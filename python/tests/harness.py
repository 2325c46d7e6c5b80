"""What the tests share: running jobs in processes of their own, and tables."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STWEAVER = ROOT / "bin" / "stweaver"
SHARED = ROOT.parent / "shared"
PHANTOM = os.environ.get("PHANTOM_BUILD")  # where check.sh built the phantom GPU; unset: there is none
MIB, GIB = 1 << 20, 1 << 30

needs_phantom = unittest.skipUnless(PHANTOM, "the phantom GPU (../shared/phantom) is not there")


# What PyTorch on the phantom says, about once in a hundred processes and without us too, when a thread of autograd is
# still there at the interpreter's exit (the phantom's notes have it). Such a process is run once more.
EXIT_FAULT = "terminate called without an active exception"


def environment(phantom=False, **more):
    """This process's, without what would change the allocator; `more` replaces, None removes."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STWEAVER_", "PYTORCH_", "LD_PRELOAD"))}
    env.update(PYTHONPATH=str(ROOT / "python"), PYTHONWARNINGS="ignore", PYTHONDONTWRITEBYTECODE="1", TRANSFORMERS_VERBOSITY="error",
               TRANSFORMERS_NO_ADVISORY_WARNINGS="1", CUDA_MODULE_LOADING="LAZY")
    if phantom:
        env.update(LD_PRELOAD=f"{PHANTOM}/libphantom.so", LD_LIBRARY_PATH=PHANTOM, TRITON_LIBCUDA_PATH=PHANTOM)
    for k, v in more.items():
        env.pop(k, None) if v is None else env.__setitem__(k, str(v))
    return env


def run(*command, env=None, code=0, cwd=None):
    """Runs a command; its exit status is checked. Returns the finished process, output as text."""
    for _ in range(2):  # see EXIT_FAULT
        done = subprocess.run([str(c) for c in command], env=env or environment(), cwd=cwd, capture_output=True, text=True, timeout=600)
        if not (done.returncode in (-6, 134) and EXIT_FAULT in done.stderr):
            break
    if done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}, not {code}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}")
    return done


def python(*arguments, **options):
    return run(sys.executable, *arguments, **options)


def script(text, *launcher, **options):
    """Runs a Python text; launcher: arguments of python before it, e.g. -m stweaver.run --heap."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "script.py"
        path.write_text(text)
        return python(*launcher, path, **options)


def job(name, *arguments, launcher=(), folder, env=None):
    """Runs a job of this folder, "job.py" or "fsdp_job.py". Returns (what it wrote, the finished process)."""
    out = pathlib.Path(folder) / "out.json"
    done = python(*launcher, HERE / name, *arguments, "--out", out, env=env)
    return json.loads(out.read_text()), done


def launcher(*options, conf=""):
    return ("-m", "stweaver.run", *options, *(("--conf", conf) if conf else ()))


def compile_plan(profile, plan, *options):
    """Returns the compiler's summary."""
    return json.loads(run(STWEAVER, "compile", profile, "-o", plan, "--json", *options).stdout)


def table(title, rows):
    """Prints rows, the first of which is the head, as RESULTS.md has them."""
    print(f"\n{title}\n")
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(str(c) for c in row) + " |")
    print(flush=True)
