"""A program of which one process fails: how is the first argument."""

import importlib
import os
import signal
import sys
import time
from datetime import timedelta

import gradcore as gc
import gradcore.distributed as dist


def main(how, backend="mpi"):
    if backend == "nccl":
        importlib.import_module("tests.distributed.nccl_stand_in")
    on_device = backend == "nccl"
    limit = timedelta(seconds=100 if on_device else 3)
    dist.init_process_group(backend, os.environ.get("INIT_METHOD"), timeout=limit)
    t = gc.ones(3, device="cuda" if on_device else "cpu")
    dist.all_reduce(t)
    group = dist.new_group(timeout=timedelta(seconds=6)) if on_device else None  # all processes are here
    dist.all_reduce(t, group=group)
    if dist.get_rank() == 1:
        if how == "raises":
            raise LookupError("of rank one")
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how in ("hangs", "sleeps"):
            time.sleep(600 if how == "hangs" else 9)
            sys.exit(0)
        if how == "ends":
            sys.exit(0)
        if how == "gives another size":
            t = gc.ones(300, device=t.device)
    try:
        dist.all_reduce(t, group=group)
        print("went on", flush=True)
    except dist.DistBackendError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        try:
            dist.all_reduce(t, group=group)
        except dist.DistBackendError as again:
            print("after a failure" in str(again), flush=True)
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
