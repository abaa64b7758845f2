"""Primes by Eratosthenes, their gaps, and factors of numbers by trial division."""

import numpy as np


def primes_below(n):
    is_prime = np.ones(n, bool)
    is_prime[:2] = False
    k = 2
    while k * k < n:
        if is_prime[k]:
            is_prime[k * k :: k] = False
        k += 1
    return np.nonzero(is_prime)[0]


def main(n, numbers):
    """The primes, how often each gap occurs, and the largest prime factor of each number."""
    primes = primes_below(n)
    gaps = np.bincount(np.diff(primes))
    largest = np.zeros(numbers.size, np.int64)
    for at in range(numbers.size):
        left = numbers[at]
        for p in primes:
            if p * p > left:
                break
            while left % p == 0:
                left //= p
                largest[at] = p
        if left > 1:
            largest[at] = left
    return primes, gaps, largest


def make_arguments(scale):
    """Primes enough for numbers below a million."""
    rng = np.random.default_rng(83)
    return 1000 * scale, rng.integers(2, 1_000_000, 4 * scale)
