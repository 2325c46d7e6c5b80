#!/usr/bin/env bash
# usage: run.sh [PYTHON]      in a checkout that has been built (make build so), on a machine with a GPU and PyTorch
#
# What only a GPU can show, in at most five minutes: the backend on the real driver (contents by copies, one piece of
# memory at two addresses); the same losses, bit for bit, natively, by a plan, by the heap and by a heap that stitches, over 20 steps of a small GPT with recomputation;
# what both reserve; ns a call; and that 50 fresh processes leave nothing behind. GPUTEST_PROCESSES is
# another number of them. GPUTEST_PHANTOM=1 says that the device is a phantom: its losses mean nothing and are not compared.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python3}
processes=${GPUTEST_PROCESSES:-50}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1 CUBLAS_WORKSPACE_CONFIG=:4096:8

# job runs gpt.py. PyTorch on the phantom aborts now and then at its exit, after its last line (python/tests/harness.py,
# EXIT_FAULT): there, and there only, such a process runs again, twice at most.
job() {
  local said rc try
  said=$(mktemp -d -p "$out")
  for try in 1 2 3; do
    rc=0
    "$python" -W ignore runtime/gputest/gpt.py "$@" >"$said/out" 2>"$said/err" || rc=$?
    if [ $rc -ne 134 ] || [ -z "${GPUTEST_PHANTOM:-}" ] || ! grep -q "terminate called without an active exception" "$said/err"; then break; fi
  done
  cat "$said/out"
  cat "$said/err" >&2
  return $rc
}
export python out
export -f job

for needed in bin/stweaver build/libstweaver.so; do
  [ -e "$needed" ] || { echo "gputest: there is no $needed; make build so" >&2; exit 2; }
done
if [ -z "${GPUTEST_PHANTOM:-}" ]; then
  make -s build/runtime/plain/phantom_cuda
  build/runtime/plain/phantom_cuda --copy
fi

job --out "$out/native.json"
job --out "$out/again.json"
job --out "$out/record.json" --mode record --profile "$out/gpt.stwp" --steps 6
bin/stweaver compile "$out/gpt.stwp" -o "$out/gpt.plan" --json >"$out/compile.json"
bin/stweaver verify "$out/gpt.plan" "$out/gpt.stwp" >/dev/null
job --out "$out/heap.json" --mode heap
STWEAVER_CONF=stitch:8GiB job --out "$out/stitched.json" --mode heap
job --out "$out/plan.json" --mode plan --plan "$out/gpt.plan"

before=$(job --probe)
seq "$processes" | xargs -P 4 -I{} bash -c 'job --out "$out/fresh{}.json" --mode plan --plan "$out/gpt.plan" --steps 2'
after=$(job --probe)
"$python" runtime/gputest/compare.py "$out" "$processes" "$before" "$after"
