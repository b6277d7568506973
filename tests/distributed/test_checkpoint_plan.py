"""Plans of checkpoints for many processes, without any of them."""

from __future__ import annotations

import json
from pathlib import Path

import gradcore as gc
from gradcore.distributed import checkpoint
from gradcore.distributed.checkpoint_plan import Index, Value, assign

RANKS = 1000


def test_a_plan_of_a_thousand_ranks_is_small_and_balanced() -> None:
    values = {f"layer.{i}.weight": Value("(64, 64) float32", 4 * 64 * 64 * (1 + i % 7)) for i in range(3000)}
    owners = assign(values, RANKS)
    loads = [0] * RANKS
    for name, owner in owners.items():
        loads[owner] += values[name].nbytes
    assert owners.keys() == values.keys()
    assert max(loads) <= sum(loads) / RANKS + 4 * 64 * 64 * 7
    parts = Index("t", lengths={f"p{i}": 1000 + i for i in range(300)}, ranks=RANKS)
    assert len(parts.dump()) < 100 * 300  # whatever the number of ranks
    again = Index.parse(parts.dump())
    assert again == parts
    for rank in (0, 1, 500, 999):
        assert again.parts("p7", 1007 * rank, 1007 * (rank + 1)) == [(f"t-{rank:05d}.pt", 1007 * rank)]
    # another number of ranks reads the files that overlap with its part, and no more
    assert [file for file, _ in again.parts("p0", 2500, 4500)] == [f"t-{rank:05d}.pt" for rank in (2, 3, 4)]
    assert len(again.parts("p0")) == RANKS


def test_earlier_indices_are_read() -> None:
    text = json.dumps({"version": 2, "files": {"w": [["ab-00001.pt", 0], ["ab-00000.pt", 4]]}, "shapes": {"w": [8]}})
    index = Index.parse(text)
    assert index.parts("w") == [("ab-00001.pt", 0), ("ab-00000.pt", 4)]
    assert index.parts("w", 0, 4) == [("ab-00001.pt", 0)]
    assert Index.parse(json.dumps({"version": 1, "files": {"x": "ab-00002.pt"}})).parts("x") == [("ab-00002.pt", 0)]
    first = Index.parse(json.dumps({"version": 1, "files": {"x": "ab-00002.pt"}}))
    assert (first.names_in("ab-00002.pt"), first.names_in("ab-00001.pt")) == ({"x"}, set())


def test_a_process_alone_saves_a_part(tmp_path: Path) -> None:
    own = checkpoint.Shard(gc.arange(4.0), (10,), 6)  # not the part that rank 0 has if all are equally long
    checkpoint.save({"part": own, "epoch": 2}, checkpoint_id=tmp_path)
    state = {"part": checkpoint.Shard(gc.zeros(3), (10,), 7), "epoch": 0}
    checkpoint.load(state, checkpoint_id=tmp_path)
    assert state["part"].tensor.tolist() == [1.0, 2.0, 3.0]
    assert state["epoch"] == 2
