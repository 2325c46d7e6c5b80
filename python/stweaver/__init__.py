"""STWeaver in PyTorch: device memory by plan.

    import stweaver
    stweaver.install(plan="plans/{rank}.plan")   # before anything touches CUDA
    for batch in loader:
        stweaver.step()                          # where an iteration begins; optional
        ...

Without a change to the script: python -m stweaver.run --plan plans/{rank}.plan train.py
"""

from ._install import InstallError, install, installed
from ._marks import phase, step
from ._stats import report, stats

__all__ = ["InstallError", "install", "installed", "phase", "report", "stats", "step"]
__version__ = "0.1.0"
