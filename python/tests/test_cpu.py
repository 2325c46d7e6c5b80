"""The whole road in real PyTorch with real numbers, on the CPU: record -> compile -> train by the plan."""

import pathlib
import shutil
import struct
import tempfile
import unittest

from harness import MIB, STWEAVER, compile_plan, job, launcher, run, table

import stweaver._library

STEPS, RECORDED = 20, 8
CONF = "granularity:64K,report:0"  # small models: granules of 2 MiB would hide everything
MODELS = {"gpt2": "GPT-2", "llama": "Llama, checkpointing", "moe": "MoE, eager", "lengths": "GPT-2, four lengths",
          "eval": "GPT-2, evaluation in the loop"}


def train(model, folder, *options, conf=CONF, steps=STEPS):
    return job("job.py", model, "--steps", steps, launcher=launcher(*options, "--cpu", conf=conf) if options else (), folder=folder)[0]


def crc32c(data):
    return stweaver._library.load().stw_crc32c(bytes(data), len(data)) & 0xFFFFFFFF


def shift_an_offset(plan):
    """Moves one of two neighbours that live through the whole loop by 512 bytes onto the other, checksum and all (runtime/stw_plan.h)."""
    data = bytearray(plan.read_bytes())
    sections = {}
    for i in range(struct.unpack_from("<I", data, 28)[0]):
        kind, _, offset, size = struct.unpack_from("<IIQQ", data, 128 + 24 * i)
        sections[kind] = offset, size
    slots, entries = sections[1], sections[2]
    count, loop_start = struct.unpack_from("<II", data, 100)
    forever = set()
    for k in range(loop_start):
        slot, life = struct.unpack_from("<II", data, entries[0] + 8 * k)
        lo, size, _, _, flags = struct.unpack_from("<IIHBB", data, slots[0] + 12 * slot)
        if k + (life & (1 << 27) - 1) >= count and flags & 1:
            forever.add((lo, lo + size, slot))
    end_at = {end: slot for _, end, slot in forever}
    lo, _, slot = next(x for x in sorted(forever) if x[0] in end_at)
    struct.pack_into("<I", data, slots[0] + 12 * slot, lo - 1)
    struct.pack_into("<I", data, 24, 0)
    struct.pack_into("<I", data, 24, crc32c(data))
    plan.write_bytes(data)


class Road(unittest.TestCase):
    rows = [("model", "losses", "canary faults", "hits %", "E heap", "E plan", "peak allocated MiB", "reserved MiB, heap",
             "reserved MiB, plan", "ns malloc", "ns free")]

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        table(f"Real PyTorch on the CPU: {STEPS} steps by a plan from {RECORDED} recorded ones", cls.rows)

    def road(self, model):
        native = train(model, self.folder)
        profile, plan = self.folder / f"{model}.stwp", self.folder / f"{model}.plan"
        recorded = train(model, self.folder, "--record", profile, steps=RECORDED)
        heap = recorded["stats"]  # recording runs by the heap
        self.assertEqual(recorded["losses"], native["losses"][:len(recorded["losses"])])
        compile_plan(profile, plan)
        run(STWEAVER, "verify", plan, profile)
        planned = train(model, self.folder, "--plan", plan, conf=CONF + ",canary:1,time:1")
        s = planned["stats"]
        same = planned["losses"] == native["losses"]
        self.rows.append((MODELS[model], "identical" if same else "DIFFERENT", s["canary_faults"], f"{100 * s['hit_rate']:.2f}",
                          f"{heap['efficiency']:.4f}", f"{s['efficiency']:.4f}", f"{s['peak_live_bytes'] / MIB:.1f}",
                          f"{heap['peak_reserved_bytes'] / MIB:.1f}", f"{s['peak_reserved_bytes'] / MIB:.1f}", s["ns_malloc"], s["ns_free"]))
        self.assertTrue(same)
        self.assertEqual((s["canary_faults"], s["bad_free"], s["failed"], s["conflicts"]), (0, 0, 0, 0))
        self.assertLessEqual(s["peak_reserved_bytes"], heap["peak_reserved_bytes"])
        return s

    def test_gpt2(self):
        s = self.road("gpt2")
        self.assertEqual(s["hit_rate"], 1.0)
        self.assertGreater(s["efficiency"], 0.995)

    def test_llama(self):
        s = self.road("llama")
        self.assertEqual(s["hit_rate"], 1.0)
        self.assertGreater(s["efficiency"], 0.995)

    def test_moe(self):
        self.assertGreater(self.road("moe")["hit_rate"], 0.99)

    def test_lengths(self):
        self.road("lengths")

    def test_evaluation(self):
        self.assertGreater(self.road("eval")["hit_rate"], 0.99)

    def test_shifted_offset(self):
        profile, plan = self.folder / "shifted.stwp", self.folder / "shifted.plan"
        recorded = train("gpt2", self.folder, "--record", profile, steps=RECORDED)
        compile_plan(profile, plan)
        run(STWEAVER, "verify", plan, profile)
        shift_an_offset(plan)
        run(STWEAVER, "verify", plan, profile, code=4)
        wrong = train("gpt2", self.folder, "--plan", plan, conf=CONF + ",canary:1", steps=RECORDED)
        s = wrong["stats"]
        self.assertGreater(s["conflicts"], 0)  # the occupancy check would not hand the place out twice
        self.assertEqual(s["canary_faults"], 0)
        self.assertEqual(wrong["losses"], recorded["losses"])
        print(f"\nA plan with one offset shifted by 512 bytes: verify exits 4; at run time {s['conflicts']} conflicts, "
              f"{s['canary_faults']} canary faults, losses identical", flush=True)


if __name__ == "__main__":
    unittest.main()
