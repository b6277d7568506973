"""Train a classifier on scikit-learn's handwritten digits, with plain update steps.

A fifth of the 1797 pictures is held out. Where CUDA cannot be used, the program says so and runs on the CPU.
It leaves two pictures in --out: the loss as training goes on, and held-out digits that were misread.

Started in several processes, each takes its share of every batch, and all make the same steps:
python -m gradcore.distributed.run --nproc-per-node 2 docs/examples/digits.py
"""

import argparse
from itertools import pairwise
from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import trange

import gradcore as gc
import gradcore.distributed as dist

LAYERS = [64, 256, 10]
BATCH, LEARNING_RATE, MOMENTUM = 32, 0.05, 0.9
NOISE = 0.2  # added to the training pictures, so that the net learns shapes rather than single pixels


def initial_parameters(device):
    """Return the weights, scaled to keep the size of the signal, and the biases of every layer."""
    parameters = []
    for fan_in, fan_out in pairwise(LAYERS):
        parameters += [gc.randn(fan_in, fan_out) * (2 / fan_in) ** 0.5, gc.zeros(fan_out)]
    return [p.to(device).requires_grad_() for p in parameters]


def scores(parameters, x):
    """Return ten scores for every picture; the highest is the guess."""
    w1, b1, w2, b2 = parameters
    return gc.relu(x @ w1 + b1) @ w2 + b2


def train(parameters, images, labels, epochs):
    """Descend the gradient with momentum; return the mean loss of each epoch."""
    velocities = [gc.zeros_like(p) for p in parameters]
    history = []
    share = slice(dist.get_rank(), None, dist.get_world_size())
    for _ in (progress := trange(epochs, unit="epoch", disable=dist.get_rank() > 0)):
        total = gc.zeros((), device=images.device)
        order = gc.randperm(len(images)).to(images.device)
        for rows in (order[i : i + BATCH] for i in range(0, len(order), BATCH)):
            x = images[rows] + NOISE * gc.randn(len(rows), LAYERS[0], device=images.device)
            loss = gc.nn.functional.cross_entropy(scores(parameters, x[share]), labels[rows][share], reduction="sum")
            (loss / len(rows)).backward()
            with gc.no_grad():
                for p in parameters:
                    dist.all_reduce(p.grad)
                total += loss
                for p, velocity in zip(parameters, velocities, strict=True):
                    velocity.mul_(MOMENTUM).add_(p.grad)
                    p -= LEARNING_RATE * velocity
                    p.grad = None
        dist.all_reduce(total)
        history.append(total.item() / len(images))
        progress.set_postfix(loss=f"{history[-1]:.4f}")
    return history


def save_pictures(out, history, images, labels, guesses):
    """Write loss.png and misread.png; the latter shows the first 16 misread digits."""
    out.mkdir(parents=True, exist_ok=True)
    figure = Figure(layout="constrained")
    axes = figure.add_subplot(xlabel="epoch", ylabel="mean cross-entropy in training", yscale="log")
    axes.plot(range(1, len(history) + 1), history)
    figure.savefig(out / "loss.png")
    wrong = (guesses != labels).nonzero()[0]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    figure.suptitle(f"{len(wrong)} of {len(labels)} held-out digits were misread")
    cells = figure.subplots(2, 8, subplot_kw={"frame_on": False, "xticks": [], "yticks": []})
    for cell, i in zip(cells.flat, wrong, strict=False):
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{labels[i]} read as {guesses[i]}", fontsize=9)
    figure.savefig(out / "misread.png")


def main():
    """Read the command line, train, and say where that ran and how well it went."""
    parser = argparse.ArgumentParser(description="Train a classifier on handwritten digits.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds give equal results (default: 0)")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the pictures (default: 40)")
    parser.add_argument("--out", type=Path, default="digits-result", help="where the pictures go")
    options = parser.parse_args()
    dist.init_process_group("nccl" if options.device.startswith("cuda") and gc.cuda.is_available() else "mpi")
    gc.manual_seed(options.seed)  # all processes draw the same numbers
    parameters = initial_parameters(options.device)
    pixels, digits = load_digits(return_X_y=True)
    order = gc.randperm(len(digits))
    images = gc.tensor(pixels / 16, dtype=gc.float32)[order].to(parameters[0].device)
    labels = gc.tensor(digits)[order].to(images.device)

    test, training = slice(len(labels) // 5), slice(len(labels) // 5, None)
    history = train(parameters, images[training], labels[training], options.epochs)
    with gc.no_grad():
        guesses = scores(parameters, images[test]).argmax(dim=1)
    accuracy = (guesses == labels[test]).float().mean().item()
    if dist.get_rank() > 0:
        return
    save_pictures(options.out, history, *(t.cpu().numpy() for t in (images[test], labels[test], guesses)))
    print(f"Ran on {parameters[0].device}: test accuracy {accuracy:.2%}. Pictures are in {options.out}/.")


if __name__ == "__main__":
    main()
