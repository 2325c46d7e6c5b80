"""The package: installing, the launcher, statistics, out of memory, streams, fork, exit."""

import json
import pathlib
import tempfile
import unittest

from harness import GIB, STWEAVER, compile_plan, environment, launcher, needs_phantom, python, run, script

HEAP_CPU = launcher("--heap", "--cpu", conf="report:0")
HEAP = launcher("--heap", conf="report:0")

RAISES = """
import torch, stweaver
def attempt(*before, **arguments):
    try:
        stweaver.install(**arguments)
        return "installed"
    except stweaver.InstallError as e:
        return str(e)
"""


class Launcher(unittest.TestCase):
    def test_usage(self):
        for arguments, says in (((), "no script"), (("--plan",), "needs a value"), (("--fast", "x.py"), "no --fast"),
                                (("--heap", "--off", "x.py"), "one of"), (("--off", "nowhere.py"), "nowhere.py: there is no such script")):
            self.assertIn(says, python("-m", "stweaver.run", *arguments, code=2).stderr)
        self.assertIn("torchrun", python("-m", "stweaver.run", "--help").stderr)

    def test_arguments_reach_the_script(self):
        text = "import sys, stweaver, os; print(sys.argv[1:], stweaver.installed(), os.path.basename(sys.argv[0]), __name__)"
        out = script(text, *HEAP_CPU, env=environment()).stdout
        self.assertEqual(out, "[] cpu script.py __main__\n")
        self.assertEqual(python("-m", "stweaver.run", "--off", "-m", "json.tool", "--help").stdout[:6], "usage:")

    def test_torchrun(self):
        """As README says it: a file for each rank."""
        with tempfile.TemporaryDirectory() as folder:
            f = pathlib.Path(folder)
            (f / "script.py").write_text("import os, torch, stweaver; torch.ones(10); assert stweaver.installed(), os.environ['RANK']")
            python("-m", "torch.distributed.run", "--nproc-per-node", 2, "-m", "stweaver.run", "--record", f / "{rank}.stwp", "--cpu",
                   f / "script.py")
            self.assertEqual(sorted(p.name for p in f.iterdir()), ["0.stwp", "1.stwp", "script.py"])

    def test_asked_for_and_not_to_be_had(self):
        done = script("print('ran')", "-m", "stweaver.run", "--cpu", "--plan", "/nowhere/{rank}.plan", env=environment(RANK=3), code=3)
        self.assertEqual(done.stdout, "")
        self.assertIn("/nowhere/3.plan", done.stderr)
        self.assertIn("colour", script("", "-m", "stweaver.run", "--cpu", "--heap", "--conf", "colour:red", code=3).stderr)

    def test_environment_is_only_a_wish(self):
        text = "import torch, stweaver; torch.ones(10); print(stweaver.installed(), stweaver.stats()['unknown'] > 0)"
        for wish in ({"STWEAVER_PLAN": "/nowhere/x.plan"}, {"STWEAVER_MODE": "fast"}, {"STWEAVER_CONF": "colour:red"}):
            done = script(text, "-m", "stweaver.run", "--cpu", env=environment(**wish))
            self.assertEqual(done.stdout, "cpu True\n")
            self.assertIn("going on by the heap", done.stderr)
        self.assertEqual(script("import stweaver; print(stweaver.installed(), stweaver.stats(), stweaver.report() == '')", "-m", "stweaver.run",
                                env=environment(STWEAVER_MODE="off")).stdout, "None {} True\n")

    def test_exceptions_and_status_are_the_scripts(self):
        self.assertIn("ValueError: mine", script("raise ValueError('mine')", *HEAP_CPU, code=1).stderr)
        script("import sys; sys.exit(7)", *HEAP_CPU, code=7)


class Install(unittest.TestCase):
    def test_errors(self):
        out = script(RAISES + """
print(attempt(device="tpu"))
print(attempt(plan="/nowhere/x.plan", device="cpu"))
print(attempt(mode="plan", device="cpu"))
print(attempt(mode="fast", device="cpu"))
print(attempt(device="cpu", colour="red"))
print(attempt(mode="off"), stweaver.installed())
print(attempt(device="cpu", capacity="1GiB", report=False), stweaver.installed())
print(attempt(device="cpu"))
stweaver.step(); stweaver.phase("alone")
""").stdout.splitlines()
        for line, says in zip(out, ("tpu", "stweaver compile", "path of a plan", "fast", "colour", "installed None", "installed cpu",
                                    "installed already")):
            self.assertIn(says, line)

    def test_without_a_compiler(self):
        with tempfile.TemporaryDirectory() as empty:
            out = script(RAISES + "print(attempt(device='cpu'), stweaver.installed())",
                         env=environment(CXX="/nowhere/c++", XDG_CACHE_HOME=empty)).stdout
        self.assertIn("needs a C++ compiler", out)
        self.assertTrue(out.endswith("None\n"))

    @needs_phantom
    def test_too_late(self):
        out = script(RAISES + "torch.zeros(3, device='cuda'); print(attempt())", env=environment(phantom=True)).stdout
        self.assertIn("initialised already", out)

    @needs_phantom
    def test_the_library_alone(self):
        """Without the package: what PyTorch's documentation says, and the environment."""
        out = script("""
import sys, torch
from stweaver import _library
a = torch.cuda.memory.CUDAPluggableAllocator(str(_library.path()), "stw_torch_malloc", "stw_torch_free")
torch.cuda.memory.change_current_allocator(a)
x = torch.zeros(1000, device="cuda")
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory")
""", env=environment(phantom=True, STWEAVER_PLAN="/nowhere/x.plan", STWEAVER_CONF="report:1"))
        self.assertEqual(out.stdout, "out of memory\n")
        self.assertIn("going on without a plan", out.stderr)
        self.assertIn("2: 0 planned, 0 dynamic, 1 unknown, 1 failed", out.stderr)


@needs_phantom
class Torch(unittest.TestCase):
    """What programs ask torch.cuda."""

    def cuda(self, text, *options, **env):
        return script("import torch, stweaver, json, gc, os\n" + text, *(options or HEAP), env=environment(phantom=True, **env))

    def test_statistics(self):
        ask = """
m = torch.cuda
x = torch.empty(1 << 20, device="cuda"); y = torch.empty(3 << 20, device="cuda")
del y
s = m.memory_stats()
print(json.dumps([list(s), m.memory_allocated(), m.max_memory_allocated(), m.memory_reserved() >= 4 << 20, m.max_memory_reserved() == m.memory_reserved(),
    s["allocation.all.allocated"], s["allocation.all.current"], s["allocation.all.freed"], s["num_ooms"]]))
m.reset_peak_memory_stats(); m.reset_accumulated_memory_stats()
m.empty_cache()
s = m.memory_stats(0)
print(json.dumps([m.max_memory_allocated("cuda:0"), m.max_memory_allocated(torch.device("cuda")), s["allocation.all.allocated"]]))
print(m.memory_reserved() < 12 << 20, "CUDA memory summary" in m.memory_summary(), "OOMs" in m.memory_summary(abbreviated=True))
"""
        ours, native = (self.cuda(ask, *way).stdout.splitlines() for way in (HEAP, launcher("--off")))
        keys, numbers = (json.loads(x[0]) for x in (ours, native))
        self.assertEqual(keys[1:], numbers[1:])
        self.assertEqual(sorted(set(numbers[0]) - set(keys[0]) - {k for k in numbers[0] if k.startswith("reserved_bytes_by_private")}), [])
        self.assertEqual(ours[1], native[1])
        self.assertEqual(ours[2], "True True True")

    def test_statistics_of_a_device_without_requests(self):
        out = self.cuda("torch.cuda.init(); print(torch.cuda.memory_allocated(), torch.cuda.memory_stats()['num_ooms'], stweaver.stats(), "
                        "stweaver.stats(1), torch.accelerator.memory_allocated() if hasattr(torch.accelerator, 'memory_allocated') else 0)",
                        PHANTOM_DEVICES=2).stdout
        self.assertEqual(out, "0 0 {} {} 0\n")

    def test_out_of_memory(self):
        """Raised as torch's own, with the words that programs look for, from autograd's thread too; training goes on after it."""
        out = self.cuda("""
m = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, device="cuda") for _ in range(4)])
o = torch.optim.SGD(m.parameters(), 0.1)
class Big(torch.autograd.Function):
    @staticmethod
    def forward(c, x): return x * 1
    @staticmethod
    def backward(c, g): torch.empty(3 << 30, dtype=torch.uint8, device="cuda"); return g
def step(n, big=False):
    x = m(torch.ones(n, 1024, device="cuda"))
    (Big.apply(x) if big else x).sum().backward()
    o.step(); o.zero_grad()
step(64)
for n, big in ((1 << 20, False), (64, True)):
    try:
        step(n, big); print("no")
    except torch.cuda.OutOfMemoryError as e:
        print(type(e) is torch.OutOfMemoryError, str(e)[:35])
    o.zero_grad(); gc.collect()
step(64)
torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_stats()["num_ooms"])
""", PHANTOM_MEM="2g").stdout.splitlines()
        self.assertEqual(out, ["True CUDA out of memory. Tried to alloca"[:len(out[0])]] * 2 + ["2"])

    def test_memory_fraction(self):
        out = self.cuda("""
torch.cuda.set_per_process_memory_fraction(0.25)
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda"); del x
torch.cuda.empty_cache()
torch.cuda.set_per_process_memory_fraction(0.125)
try: torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError: print("refused")
torch.cuda.set_per_process_memory_fraction(1.0)
torch.empty(3 << 30, dtype=torch.uint8, device="cuda"); print("served")
""", PHANTOM_MEM="4g").stdout
        self.assertEqual(out, "refused\nserved\n")
        out = self.cuda("""
try: torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError: print("refused")
""", *launcher("--heap", conf="headroom:2GiB,report:0"), PHANTOM_MEM="4g").stdout
        self.assertEqual(out, "refused\n")

    def test_record_stream(self):
        out = self.cuda("""
side = torch.cuda.Stream()
x = torch.empty(1 << 20, device="cuda")
with torch.cuda.stream(side): y = x + 1
x.record_stream(side)
where = x.data_ptr()
del x
x = torch.empty(1 << 20, device="cuda")
s = stweaver.stats()
print(s["deferred"], x.data_ptr() != where or s["event_waits"] > 0)
""", PHANTOM_LAG=1000).stdout
        self.assertEqual(out, "1 True\n")

    def test_recorded_uses(self):
        """record_stream, streams, marks and optimizers reach the recording."""
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "{rank}.stwp"
            self.cuda("""
m = torch.nn.Linear(512, 512, device="cuda"); o = torch.optim.AdamW(m.parameters()); side = torch.cuda.Stream()
for i in range(4):
    x = torch.empty(64, 512, device="cuda")
    with torch.cuda.stream(side): x.add_(1)
    x.record_stream(side)
    m(x).sum().backward(); o.step(); o.zero_grad()
""", *launcher("--record", profile, conf="report:0"), RANK=4)
            profile = pathlib.Path(folder) / "4.stwp"
            self.assertIn(b"Optimizer.step#AdamW.step", profile.read_bytes())
            self.assertEqual(compile_plan(profile, profile.with_suffix(".plan"))["steps_source"], "annotations: Optimizer.step")
            self.assertIn("4 blocks were used by another stream", run(STWEAVER, "stats", profile).stdout)

    def test_several_devices(self):
        text = """
for i in range(2):
    m = torch.nn.Linear(512, 512, device=f"cuda:{i}"); x = torch.ones(64, 512, device=f"cuda:{i}")
    for _ in range(4): stweaver.step() if i == 0 else None; m(x).sum().backward(); m.zero_grad()
print([stweaver.stats(i)["hits"] > 0 for i in range(2)], torch.cuda.memory_allocated(1) > 0)
"""
        with tempfile.TemporaryDirectory() as folder:
            f = pathlib.Path(folder)
            self.cuda(text.replace("range(2)", "range(1)"), *launcher("--record", f / "x.stwp", conf="report:0"))
            compile_plan(f / "x.stwp", f / "0.plan")
            (f / "1.plan").write_bytes((f / "0.plan").read_bytes())
            for plan, hits in (("0.plan", "[True, False] True\n"), ("{device}.plan", "[True, True] True\n")):
                done = self.cuda(text, *launcher("--plan", f / plan, conf="report:0"), PHANTOM_DEVICES=2)
                self.assertEqual(done.stdout, hits)
            (f / "1.plan").write_bytes(b"not a plan")
            done = self.cuda(text, *launcher("--plan", f / "{device}.plan", conf="report:0"), PHANTOM_DEVICES=2)
            self.assertEqual(done.stdout, "[True, False] True\n")
            self.assertIn("1.plan", done.stderr)
            self.assertIn("going on without a plan", done.stderr)

    def test_data_loader_fork_and_exit(self):
        """Workers by fork, a child that ends by exit(), pinned memory, tensors alive at the very end, threads."""
        done = self.cuda("""
import threading, sys
x = torch.ones(1 << 20, device="cuda")
class Data(torch.utils.data.Dataset):
    def __len__(self): return 32
    def __getitem__(self, i): return torch.full((1000,), i)
n = 0
for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, pin_memory=True):
    n += batch.to("cuda", non_blocking=True).shape[0]
pid = os.fork()
if pid == 0:
    try: torch.empty(10, device="cuda"); bad = True
    except RuntimeError: bad = False
    sys.exit(5 if bad else 6)  # with a copy of x, whose deleter runs
status = os.waitpid(pid, 0)[1]
t = [threading.Thread(target=lambda: [torch.empty(1 << 16, device="cuda") for _ in range(500)]) for _ in range(4)]
[a.start() for a in t]; [a.join() for a in t]
print(n, os.waitstatus_to_exitcode(status), torch.cuda.memory_allocated() >= 4 << 20)
""", *launcher("--heap", conf="report:1"))
        self.assertEqual(done.stdout, "32 6 True\n")
        self.assertEqual(done.stderr.count("stweaver cuda:0: memory"), 1)  # one report, the parent's
        self.assertNotIn("terminate", done.stderr)

    def test_empty_tensors(self):
        self.assertEqual(self.cuda("print(torch.empty(0, device='cuda').shape, torch.zeros(3, 0, device='cuda').sum().shape)").stdout,
                         "torch.Size([0]) torch.Size([])\n")

    def test_convolution_and_attention(self):
        done = self.cuda("""
torch.backends.cudnn.benchmark = True
m = torch.nn.Conv2d(16, 32, 3, padding=1).cuda(); x = torch.randn(8, 16, 64, 64, device="cuda", requires_grad=True)
m(x).sum().backward()
with torch.backends.cudnn.flags(enabled=True, benchmark=True): m(x).sum().backward()
x = torch.randn(4, 8, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
torch.nn.functional.scaled_dot_product_attention(x, x, x).sum().backward()
print(torch.backends.cudnn.benchmark)
""")
        self.assertEqual(done.stdout, "False\n")
        self.assertEqual(done.stderr.count("benchmark stays off"), 1)

    def test_graph(self):
        """What a graph was captured on is nobody else's while it lives, nor given back, also where it was free again within the capture."""
        out = self.cuda("""
a = torch.randn(512, 512, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side): a @ a  # workspaces
torch.cuda.synchronize()
seen = set()
def inside():
    t = a @ a; seen.add(t.data_ptr()); u = t + 1; seen.add(u.data_ptr()); del t; v = u * 2; seen.add(v.data_ptr()); return v
def outside(): return {torch.empty(512, 512, device="cuda").data_ptr() for _ in range(3)} | {x.data_ptr() for x in
    [torch.empty(512, 512, device="cuda") for _ in range(50)]}
before = torch.cuda.memory_reserved()
g, h = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(g): v = inside()
n = len(seen)
with torch.cuda.graph(h, pool=g.pool()): w = inside()
del w
g.replay(); h.replay()
print(n, seen & outside(), torch.cuda.memory_reserved() > before)
torch.cuda.empty_cache()
print(seen & outside(), stweaver.stats()["pool_reserved_bytes"] > 0)
del g; print(seen & outside(), stweaver.stats()["pool_reserved_bytes"] > 0)
del h; print(stweaver.stats()["pool_live_bytes"])
del v; print(stweaver.stats()["pool_reserved_bytes"], stweaver.stats()["bad_free"], stweaver.stats()["strangers"])
""").stdout.splitlines()
        self.assertEqual(out, ["2 set() True", "set() True", "set() True", "1048576", "0 0 0"])


class Cpu(unittest.TestCase):
    def test_loader_fork_exit(self):
        out = script("""
import torch, os, sys, stweaver
torch.set_num_threads(1)
before = torch.ones(5)
x = torch.ones(1 << 18)
class Data(torch.utils.data.Dataset):
    def __len__(self): return 32
    def __getitem__(self, i): return torch.full((1000,), i) * 2
total = sum(int(b.sum()) for b in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2))
pid = os.fork()
if pid == 0:
    y = x + torch.ones(1 << 18)
    sys.exit(6 if y.sum() == 2 << 18 else 5)
print(total, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), stweaver.stats()["canary_faults"], stweaver.stats()["strangers"])
""", *launcher("--heap", "--cpu", conf="canary:1")).stdout
        self.assertEqual(out, "992000 6 0 0\n")

    def test_memory_from_before(self):
        out = script("""
import torch, stweaver
x = torch.ones(1000); y = torch.ones(1000)
stweaver.install(mode="heap", device="cpu", canary=True, report=False)
del x
y.resize_(5000)
z = torch.ones(100000)
try: torch.empty(1 << 45)
except torch.OutOfMemoryError as e: print(str(e)[:18])
print(stweaver.stats()["bad_free"], stweaver.stats("cpu")["canary_faults"], len(stweaver.report()) > 100)
""").stdout
        self.assertEqual(out, "CPU out of memory.\n0 0 True\n")


if __name__ == "__main__":
    unittest.main()
