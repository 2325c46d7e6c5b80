"""usage: compare.py FOLDER PROCESSES FREE_BEFORE FREE_AFTER     what run.sh has made, as a table; 1 where something is wrong"""

import json
import os
import sys

folder, (processes, before, after) = sys.argv[1], map(int, sys.argv[2:])
phantom = bool(os.environ.get("GPUTEST_PHANTOM"))


def read(name):
    return json.load(open(os.path.join(folder, name + ".json")))


native, again, heap, stitched, plan = (read(n) for n in ("native", "again", "heap", "stitched", "plan"))
fresh = [read(f"fresh{i + 1}") for i in range(processes)]
wrong = []
print(f"{native['device']}, PyTorch {native['torch']}")
print(f"{'':8} {'allocated':>12} {'reserved':>12} {'step':>10} {'malloc':>8} {'free':>8}")
for name, run in (("native", native), ("heap", heap), ("stitched", stitched), ("plan", plan)):
    s = run["stats"]
    calls = f"{s['ns_malloc']:>5} ns {s['ns_free']:>5} ns" if s else ""
    print(f"{name:8} {run['allocated'] / 2**20:>8.1f} MiB {run['reserved'] / 2**20:>8.1f} MiB {1e3 * run['seconds']:>7.2f} ms {calls}")
print(f"plan: {plan['stats']['hit_rate']:.2%} of its requests at their place, {plan['stats']['conflicts']} conflicts")
print(f"stitched: {stitched['stats']['stitched']} requests, {stitched['stats']['stitches']} ranges made for them")
if phantom:
    print("losses: of a phantom device, which mean nothing; not compared")
else:
    if native["losses"] != again["losses"]:
        wrong.append("the program itself does not repeat its losses: nothing can be said of the plan's")
    for name, run in (("heap", heap), ("stitched", stitched), ("plan", plan)):
        if run["losses"] != native["losses"]:
            step = next(i for i, (x, y) in enumerate(zip(run["losses"], native["losses"])) if x != y)
            wrong.append(f"{name}: the loss of step {step} is {run['losses'][step]}, natively {native['losses'][step]}")
    if any(f["losses"] != native["losses"][:2] for f in fresh):
        wrong.append("a fresh process has other losses")
    print(f"losses: {len(plan['losses'])} steps, natively twice, by the heap, stitched and by the plan, compared bit for bit")
for run in [heap, stitched, plan, *fresh]:
    if run["stats"]["bad_free"] or run["stats"]["failed"]:
        wrong.append("a free of what was not live, or a request that failed")
if plan["reserved"] > native["reserved"]:
    wrong.append("the plan reserves more than PyTorch's own allocator")
print(f"free on the device: {before / 2**20:.0f} MiB before {processes} processes, {after / 2**20:.0f} MiB after")
if before - after > 2 << 20:
    wrong.append(f"{(before - after) / 2**20:.1f} MiB are gone after {processes} processes (or another program has them)")
for w in wrong:
    print("gputest:", w, file=sys.stderr)
sys.exit(bool(wrong))
