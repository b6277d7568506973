"""Jobs of which a process fails: each phase of its life with each kind of failure.

Run all of them, each several times, with ``python -m tests.distributed.failing_phases --repeats 3``. Each must end
everything within `PATIENCE` seconds, with the report of the process that failed before all others.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.distributed.processes import environment

#: Seconds after a failure within which all processes must have ended.
PATIENCE = 5.0
#: Seconds after which processes that wait for another one give up.
LIMIT = 4.0

#: What the launcher says where a process has waited in vain.
WAITED = (
    r"rank [01]: not all ranks called init_process_group"
    r"|rank 0 failed first:\nTraceback[\s\S]*(did not finish|not all ranks called)"
)

#: What rank 1 does, by the kind of failure.
KINDS = {
    "raises": "raise FileNotFoundError('data of rank 1')",
    "exits with 3": "sys.exit(3)",
    "exits with 0": "sys.exit(0)",
    "ends at once": "os._exit(4)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "segmentation fault": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "time.sleep(600)",
}
#: Kinds that others notice only because they wait in vain.
SILENT = ("exits with 0", "hangs")

#: The lines in which `FAIL` stands for the failure, by phase, in the order in which a job reaches them.
PHASES = {
    "before gradcore is imported": "FAIL",
    "before init_process_group": "FAIL",
    "in init_process_group": "during()",
    "after init_process_group": "FAIL",
    "while a module is wrapped": "data_parallel.check_alike = fail if rank == 1 else data_parallel.check_alike",
    "in forward": "net.register_forward_pre_hook(lambda *_: fail())",
    "in a hook of backward": "net[2].weight.register_hook(lambda g: fail())",
    "while a collective is in progress": "work = dist.all_reduce(gc.ones(10), async_op=True); FAIL; work.wait()",
    "in a step of the optimizer": "opt.register_step_pre_hook(lambda *_: fail())",
    "while a checkpoint is written": "if rank == 1: checkpoint._write = fail",
    "while a checkpoint is read": "if rank == 1: checkpoint.read = fail",
    "after destroy_process_group": "FAIL",
    "at exit": "atexit.register(fail)",
}

PROGRAM = """
import atexit, os, signal, subprocess, sys, time
rank = int(os.environ.get("RANK", os.environ.get("PMI_RANK", "0")))

def fail(*_, **__):
    if rank == 1:
        with open("failed", "a") as file:
            file.write(f"{time.time()}\\n")
        KIND

def during():
    if rank == 1:  # rank 0 comes a second later, so that this process is inside
        signal.signal(signal.SIGUSR1, fail)
        number = int(signal.SIGUSR1 if HANDLED else signal.SIGKILL if "KILL" in WHAT else signal.SIGSEGV)
        if not HANDLED:
            with open("failed", "a") as file:
                file.write(f"{time.time() + .4}\\n")
        subprocess.Popen(["sh", "-c", f"sleep .4; kill -{number} {os.getpid()}"])
    else:
        time.sleep(1)

# before gradcore is imported
import gradcore as gc, gradcore.distributed as dist
from datetime import timedelta
from gradcore.distributed import checkpoint, data_parallel
# before init_process_group
# in init_process_group
dist.init_process_group("mpi", timeout=timedelta(seconds=LIMIT))
# after init_process_group
net = gc.nn.Sequential(gc.nn.Linear(4, 4), gc.nn.ReLU(), gc.nn.Linear(4, 2))
# while a module is wrapped
ddp = gc.nn.parallel.DistributedDataParallel(net)
opt = gc.optim.SGD(net.parameters(), 0.1)
# in forward
# in a hook of backward
# in a step of the optimizer
for step in range(2):
    opt.zero_grad()
    ddp(gc.ones(3, 4)).sum().backward()
    opt.step()
# while a collective is in progress
# while a checkpoint is written
state = {"model": net.state_dict()}
checkpoint.save(state, checkpoint_id="checkpoint")
# while a checkpoint is read
checkpoint.load(state, checkpoint_id="checkpoint")
dist.barrier()
dist.destroy_process_group()
# after destroy_process_group
# at exit
"""


@dataclass
class Outcome:
    """The end of a job.

    Parameters
    ----------
    code : int
    said : str
        Standard output and error.
    seconds : float
        From the failure to the end of the launcher.
    left : list of str
        Processes that are still there.
    """

    code: int
    said: str
    seconds: float
    left: list[str]


def program(phase: str, kind: str) -> str:
    """Return the source of a program in which rank 1 fails in a phase, in a given way."""
    line = PHASES[phase].replace("FAIL", "fail()")
    text = PROGRAM.replace(f"# {phase}\n", f"{line}\n").replace("KIND", KINDS[kind]).replace("LIMIT", str(LIMIT))
    handled = kind not in ("is killed", "segmentation fault")
    return text.replace("HANDLED", str(handled)).replace("WHAT", repr(KINDS[kind]))


def run(phase: str, kind: str, folder: Path) -> Outcome:
    """Run a job in two processes."""
    path = folder / "job.py"
    path.write_text(program(phase, kind))
    command = [sys.executable, "-m", "gradcore.distributed.run", "--nproc-per-node", "2", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=folder,
        stdin=subprocess.DEVNULL, start_new_session=True,
    ) as job:  # fmt: skip
        try:
            said, _ = job.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGTERM)  # the launcher ends the processes
            said, _ = job.communicate(timeout=60)
            said += "\nthe job did not end within 60 s"
    failed = folder / "failed"
    seconds = time.time() - float(failed.read_text().split()[0]) if failed.exists() else float("nan")
    end = time.monotonic() + 1  # a process whose child has ended may be in its last milliseconds
    while (left := find_processes(str(path))) and time.monotonic() < end:
        time.sleep(0.02)
    return Outcome(job.returncode, said, seconds, left)


def find_processes(text: str) -> list[str]:
    """Return the ids of the processes whose command contains a text."""
    return subprocess.run(["pgrep", "-f", text], capture_output=True, text=True, check=False).stdout.split()


def find_fault(phase: str, kind: str, outcome: Outcome, patience: float = PATIENCE) -> str:
    """Compare the end of a job with what is expected; return a description of the first fault, or an empty string."""
    said = outcome.said
    report = said.partition("gradcore.distributed.run: ")[2]
    limit = patience + (LIMIT if kind in SILENT else 0)
    if outcome.left:
        return f"processes are left: {outcome.left}"
    if not outcome.seconds < limit:  # NaN if it has not failed
        return f"it took {outcome.seconds:.1f} s"
    ends_well = {
        "at exit": ("raises", "exits with 3", "exits with 0"),
        "after destroy_process_group": ("exits with 0",),
    }
    if kind in ends_well.get(phase, ()):  # Python only prints errors of functions that are called at its end
        return "" if outcome.code == 0 else f"the exit code is {outcome.code}"
    if outcome.code == 0:
        return "the exit code is 0"
    expected = {
        "raises": r"rank 1 failed first:\nTraceback[\s\S]*FileNotFoundError: data of rank 1",
        "exits with 3": r"rank 1 failed first:\nSystemExit: 3",
        "ends at once": r"rank 1 \(pid \d+\) was killed, or ended without an error of Python",
        "is killed": r"rank 1 \(pid \d+\) was killed, or ended without an error of Python",
        "segmentation fault": r"rank 1 \(pid \d+\) failed first:\nFatal Python error: Segmentation fault",
        "exits with 0": rf"rank 1 ended before init_process_group|{WAITED}",
        "hangs": WAITED,
    }[kind]
    if phase == "before gradcore is imported":  # MPI may have ended rank 0, too, before the launcher has seen either
        expected = expected.replace(r"rank 1 \(pid", r"rank [01] \(pid")
    return "" if re.match(expected, report) else f"the report is {report[:300]!r}"


#: A process that hangs after all communication is not told from one that is busy, so nothing ends it.
CASES = [case for case in itertools.product(PHASES, KINDS) if case not in (
    ("at exit", "hangs"), ("after destroy_process_group", "hangs"))]  # fmt: skip


def main() -> int:
    """Run all cases, print those that end badly and a summary; return how many do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--phase", default="")
    parser.add_argument("--kind", default="")
    options = parser.parse_args()
    cases = [case for case in CASES if options.phase in case[0] and options.kind in case[1]]
    bad, longest = 0, {}
    for phase, kind in cases:
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(phase, kind, Path(folder))
            longest[kind] = max(longest.get(kind, 0.0), outcome.seconds)
            fault = find_fault(phase, kind, outcome)
            if fault:
                bad += 1
                print(f"{phase} / {kind}: {fault}\n{outcome.said[-1500:]}\n---", flush=True)
    print(f"{len(cases)} cases, {len(cases) * options.repeats} runs, {bad} end badly", flush=True)
    print(json.dumps({kind: round(seconds, 2) for kind, seconds in longest.items()}))
    return bad


if __name__ == "__main__":
    sys.exit(min(main(), 1))
