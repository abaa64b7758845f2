"""The likeliest path through a hidden Markov model (Viterbi), in logarithms."""

import numpy as np


def main(start, move, emit, seen):
    """The states, and the logarithm of their probability."""
    steps, states = seen.size, start.size
    score = np.zeros((steps, states))
    back = np.zeros((steps, states), np.int64)
    score[0] = np.log(start) + np.log(emit[:, seen[0]])
    for t in range(1, steps):
        for s in range(states):
            options = score[t - 1] + np.log(move[:, s])
            back[t, s] = np.argmax(options)
            score[t, s] = options[back[t, s]] + np.log(emit[s, seen[t]])
    path = np.zeros(steps, np.int64)
    path[-1] = np.argmax(score[-1])
    for t in range(steps - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return path, score[-1].max()


def make_arguments(scale):
    """A random model, and symbols to explain."""
    rng = np.random.default_rng(59)
    states, symbols = 2 + scale, 4
    start = rng.dirichlet(np.ones(states))
    move = rng.dirichlet(np.ones(states), states)
    emit = rng.dirichlet(np.ones(symbols), states)
    return start, move, emit, rng.integers(0, symbols, 15 * scale)
