#!/usr/bin/env bash
# usage: check.sh [TEST…]   (make check-torch)
#
# The tests in real PyTorch, in an environment of their own: $XDG_CACHE_HOME/stweaver/torch, of the versions in
# requirements.txt (several GB, downloaded once; one that is not complete is made anew). The phantom GPU is built from
# ../shared where that is; what needs it is skipped, with a message, where it is not.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stweaver
venv=$cache/torch
wanted=$(sha256sum python/tests/requirements.txt | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/torch.lock"
flock 9
if [ "$(cat "$venv/complete" 2>/dev/null)" != "$wanted" ]; then
  echo "check-torch: making $venv"
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps -r python/tests/requirements.txt
  "$venv/bin/python" -c 'import torch, transformers; print("torch", torch.__version__)'
  echo "$wanted" >"$venv/complete"
fi
flock -u 9
python=$venv/bin/python
unset PHANTOM_BUILD
if [ -d ../shared/phantom ]; then
  export PHANTOM_BUILD=$PWD/build/phantom
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  PATH="$venv/bin:$PATH" sh ../shared/phantom/build.sh "$site" "$PHANTOM_BUILD" >/dev/null
  make -s cuda-phantom PHANTOM_BUILD="$PHANTOM_BUILD" CUDA_INCLUDE="$site/nvidia/cu13/include"
fi
PYTHONPATH=$PWD/python:$PWD/python/tests PYTHONDONTWRITEBYTECODE=1 "$python" -W ignore -m unittest ${@:-discover -s python/tests -t python/tests -v}
if [ $# -eq 0 ] && [ -n "${PHANTOM_BUILD:-}" ]; then # what is for a GPU must run where there is one
  GPUTEST_PHANTOM=1 GPUTEST_PROCESSES=2 ../shared/phantom/run.sh runtime/gputest/run.sh "$python"
fi
