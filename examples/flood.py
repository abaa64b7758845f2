"""Water on a landscape: levels even out between neighbours until nothing flows."""

import numpy as np


def main(ground, water, rate, tolerance, most):
    """Lets the water in `water` flow in place; the number of rounds and what moved in the last."""
    moved = np.inf
    rounds = 0
    while moved > tolerance and rounds < most:
        level = ground + water
        flow = np.zeros_like(water)
        for axis in (0, 1):
            ahead = np.diff(level, axis=axis) * rate
            low = [slice(None), slice(None)]
            high = [slice(None), slice(None)]
            low[axis] = slice(None, -1)
            high[axis] = slice(1, None)
            low, high = tuple(low), tuple(high)
            ahead = np.clip(ahead, -water[low] / 4.0, water[high] / 4.0)
            flow[low] += ahead
            flow[high] -= ahead
        water += flow
        water[water < 1e-12] = 0.0
        moved = np.abs(flow).sum()
        rounds += 1
    return rounds, moved


def make_arguments(scale):
    """Hills with a lake above them."""
    n = 8 * scale
    y, x = np.mgrid[:n, :n] / n
    ground = 1.0 + np.sin(7 * x) * np.cos(5 * y) + 0.3 * x
    water = np.where((x - 0.4) ** 2 + (y - 0.5) ** 2 < 0.05, 1.5, 0.0)
    return ground, water, 0.2, 1e-3, 40
