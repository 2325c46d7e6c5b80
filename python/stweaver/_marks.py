"""Points of the program's own structure: they help to find iterations in a profile, and keep a plan in step."""

from . import _library, _install

_steps = 0


def _mark(kind, value=0, name=None):
    if _install.installed():
        _library.load().stw_torch_mark(kind, value, None if name is None else name.encode())


def step(number=None):
    """An iteration begins. Its number counts from 0 unless it is given. Costs next to nothing; does nothing where STWeaver is
    not installed."""
    global _steps
    _steps = _steps if number is None else number
    _mark(_library.ITERATION, _steps)
    _steps += 1


class phase:
    """A phase called `name` begins: phase("evaluation"), or `with phase("evaluation"):`, which also marks its end."""

    def __init__(self, name):
        self.name = name
        _mark(_library.PHASE, name=name)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _mark(_library.PHASE, name=self.name + " end")


def watch_optimizers():
    """Marks each Optimizer.step as PyTorch's own profiler does: iterations are found by it where nobody calls step()."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    span = lambda optimizer: f"Optimizer.step#{type(optimizer).__name__}.step"
    register_optimizer_step_pre_hook(lambda optimizer, *_: _mark(_library.ENTER, name=span(optimizer)))
    register_optimizer_step_post_hook(lambda optimizer, *_: _mark(_library.LEAVE, name=span(optimizer)))
