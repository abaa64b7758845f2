"""The price of an Asian call option by Monte Carlo; the random numbers come from outside."""

import numpy as np


def main(normals, spot, strike, rate, sigma, years):
    """The price, and its standard error."""
    paths, steps = normals.shape
    dt = years / steps
    drift = (rate - 0.5 * sigma**2) * dt
    price = np.full(paths, spot)
    total = np.zeros(paths)
    for k in range(steps):
        price *= np.exp(drift + sigma * np.sqrt(dt) * normals[:, k])
        total += price
    payoff = np.maximum(total / steps - strike, 0.0)
    discounted = np.exp(-rate * years) * payoff
    return discounted.mean(), discounted.std() / np.sqrt(paths)


def make_arguments(scale):
    """A year in weeks, more paths with the scale."""
    rng = np.random.default_rng(13)
    return rng.standard_normal((200 * scale, 52)), 100.0, 105.0, 0.03, 0.2, 1.0
