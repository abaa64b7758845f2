"""Conway's game of life on a torus."""

import numpy as np


def neighbours(board):
    total = np.zeros(board.shape, np.int64)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dy != 0 or dx != 0:
                total += np.roll(np.roll(board, dy, axis=0), dx, axis=1)
    return total


def main(board, steps):
    """The board after so many steps, and how many live after each."""
    living = np.zeros(steps, np.int64)
    for k in range(steps):
        count = neighbours(board)
        board = ((count == 3) | ((board == 1) & (count == 2))).astype(np.uint8)
        living[k] = board.sum()
    return board, living


def make_arguments(scale):
    """A third of the cells alive."""
    rng = np.random.default_rng(7)
    return (rng.random((10 * scale, 12 * scale)) < 0.33).astype(np.uint8), 6 * scale
