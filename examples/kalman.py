"""A Kalman filter that tracks a point in the plane from noisy positions."""

import numpy as np


def main(measured, dt, process, noise):
    """Filtered states and the trace of the covariance at every step."""
    F = np.eye(4)
    F[0, 2] = dt
    F[1, 3] = dt
    H = np.zeros((2, 4))
    H[0, 0] = 1.0
    H[1, 1] = 1.0
    Q = process * np.eye(4)
    R = noise * np.eye(2)
    x = np.zeros(4)
    P = 10.0 * np.eye(4)
    states = np.zeros((len(measured), 4))
    trust = np.zeros(len(measured))
    for k, z in enumerate(measured):
        x = F @ x
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ (z - H @ x)
        P = (np.eye(4) - K @ H) @ P
        states[k] = x
        trust[k] = np.trace(P)
    return states, trust


def make_arguments(scale):
    """A curve with noise on it."""
    rng = np.random.default_rng(11)
    t = np.linspace(0.0, 4.0, 15 * scale)
    path = np.stack([np.cos(t), np.sin(2 * t)], axis=1)
    return path + 0.05 * rng.normal(size=path.shape), t[1] - t[0], 1e-3, 2.5e-3
