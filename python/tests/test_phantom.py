"""PyTorch's own CUDA path on the phantom GPU (no kernel runs; every allocator call is real): what is reserved."""

import pathlib
import shutil
import tempfile
import unittest

from harness import GIB, ROOT, STWEAVER, compile_plan, environment, job, launcher, needs_phantom, run, table

STEPS = 6
JOBS = {"gpt2": ("GPT-2 medium, 8×1024", "job.py", ("gpt2", "--size", "large", "--device", "cuda", "--steps", STEPS), ("apart",)),
        "llama": ("Llama 24 layers, checkpointing, 4×4096", "job.py",
                  ("llama", "--size", "large", "--device", "cuda", "--steps", STEPS, "--values"), ("apart",)),
        "lengths": ("GPT-2 medium, four lengths", "job.py", ("lengths", "--size", "large", "--device", "cuda", "--steps", 8), ("apart",)),
        "fsdp": ("Llama 7B, FSDP2 over 8, 1×4096", "fsdp_job.py", ("--steps", STEPS), ("apart", "shared:500"))}
# The phantom answers the driver's event calls without making events; this library has them.
CONF = f"report:0,library:{ROOT}/build/runtime/libcuda_phantom.so"


def gib(n):
    return f"{n / GIB:.2f}"


@needs_phantom
class Reserved(unittest.TestCase):
    rows = [("job", "peak allocated GiB", "native", "expandable segments", "heap", "plan", "of the plan's requests at their place %",
             "E native", "E plan")]

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        table("Reserved, GiB, as torch.cuda.max_memory_reserved says; the phantom GPU", cls.rows)

    def compare(self, name):
        title, program, arguments, streams = JOBS[name]
        play = lambda *options, **env: job(program, *arguments, folder=self.folder, env=environment(phantom=True, **env),
                                           launcher=launcher(*options, conf=CONF) if options else ())[0]
        native, expandable = play(), play(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        profile, plan = self.folder / f"{name}.stwp", self.folder / f"{name}.plan"
        heap = play("--record", profile)  # recording runs by the heap
        for way in streams:
            compile_plan(profile, plan, "--streams", way)
            run(STWEAVER, "verify", plan, profile)
            planned = play("--plan", plan)
            s = planned["stats"]
            self.rows.append((title if way == "apart" else f"{title}, `--streams {way}`", gib(planned["allocated"]), gib(native["reserved"]),
                              gib(expandable["reserved"]), gib(heap["reserved"]), gib(planned["reserved"]), f"{100 * s['hit_rate']:.2f}",
                              f"{native['allocated'] / native['reserved']:.4f}", f"{planned['allocated'] / planned['reserved']:.4f}"))
            self.assertEqual(planned["reserved"], s["peak_reserved_bytes"])
            self.assertEqual((s["bad_free"], s["failed"], s["strangers"]), (0, 0, 0))
            self.assertGreater(s["hit_rate"], 0.99)
            self.assertEqual(s["event_waits"] > 0, way != "apart")
            self.assertLess(planned["reserved"], heap["reserved"])
            self.assertLess(planned["reserved"], native["reserved"])
            self.assertLess(planned["reserved"], expandable["reserved"])
        self.assertLess(heap["reserved"], native["reserved"])
        return native, heap, planned

    def test_gpt2(self):
        native, heap, planned = self.compare("gpt2")
        self.assertEqual(planned["allocated"], native["allocated"])  # the same program to the byte
        self.assertLess(planned["reserved"] - planned["allocated"], GIB // 100)

    def test_llama(self):
        self.compare("llama")

    def test_lengths(self):
        self.compare("lengths")

    def test_fsdp(self):
        planned = self.compare("fsdp")[-1]  # with streams that share
        self.assertGreater(planned["allocated"] / planned["reserved"], 0.97)


if __name__ == "__main__":
    unittest.main()
