"""Runs a training script with STWeaver as its allocator.

    python -m stweaver.run [--plan PATH | --record PATH | --heap | --off] [--conf KEY:VALUE,…] [--cpu]
                           (SCRIPT | -m MODULE) [ARGUMENTS…]
    torchrun --nproc-per-node 8 -m stweaver.run --plan plans/{rank}.plan train.py …

Without one of the first four, $STWEAVER_MODE, $STWEAVER_PLAN and $STWEAVER_CONF say what to do. What the command line asks for
and cannot be had ends with a message and status 3 before the script starts; of what the environment asks for it is said, and
the script runs by the heap.
"""

import os
import runpy
import sys

from ._install import InstallError, install


class Usage(Exception):
    pass


def parse(argv):
    """(arguments of install, "path" or "module", the target, its arguments)"""
    options, conf, argv = {}, {}, list(argv)
    def value(flag):
        if not argv:
            raise Usage(f"{flag} needs a value")
        return argv.pop(0)
    while argv:
        flag, joined, rest = argv.pop(0).partition("=")
        if joined and flag in ("--plan", "--record", "--conf"):
            argv.insert(0, rest)
        elif joined:
            flag += joined + rest
        if flag in ("--plan", "--record", "--heap", "--off"):
            if "mode" in options:
                raise Usage("one of --plan, --record, --heap and --off")
            options["mode"] = flag[2:]
            if flag in ("--plan", "--record"):
                options[flag[2:]] = value(flag)
        elif flag == "--conf":
            conf.update(item.partition(":")[::2] for item in value(flag).split(",") if item)
        elif flag == "--cpu":
            options["device"] = "cpu"
        elif flag in ("-h", "--help"):
            raise Usage("")
        elif flag == "-m":
            return {**options, **conf}, "module", value(flag), argv
        elif flag.startswith("-"):
            raise Usage(f"there is no {flag}")
        else:
            return {**options, **conf}, "path", flag, argv
    raise Usage("no script to run")


def main(argv):
    try:
        options, kind, target, arguments = parse(argv)
    except Usage as e:
        print(__doc__ if not str(e) else f"stweaver.run: {e}; --help says more", file=sys.stderr)
        return 2 if str(e) else 0
    if kind == "path" and not os.path.exists(target):
        print(f"stweaver.run: {target}: there is no such script", file=sys.stderr)
        return 2
    try:
        install(**options)
    except InstallError as e:
        print(e, file=sys.stderr)
        if "mode" in options:
            return 3
        print("stweaver: going on by the heap", file=sys.stderr)
        os.environ.pop("STWEAVER_CONF", None)
        try:
            install(mode="heap", device=options.get("device", "cuda"))
        except InstallError as e2:
            print(f"{e2}\nstweaver: going on with PyTorch's own allocator", file=sys.stderr)
    sys.argv = [target, *arguments]
    if kind == "module":
        sys.path.insert(0, os.getcwd())
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(target))
        runpy.run_path(target, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
