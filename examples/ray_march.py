"""Marches rays through a scene of spheres by their distance function, and shades what they hit."""

import numpy as np


def distance(points, centres, radii):
    away = np.sqrt(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)) - radii
    return away.min(axis=1)


def normals(points, centres, radii, step):
    out = np.empty_like(points)
    for axis in range(3):
        shift = np.zeros(3)
        shift[axis] = step
        ahead = distance(points + shift, centres, radii)
        out[:, axis] = ahead - distance(points - shift, centres, radii)
    return out / np.sqrt((out**2).sum(axis=1))[:, None]


def main(eye, rays, centres, radii, light, most):
    """Brightness and depth by ray; nothing hit is 0 and infinite."""
    depth = np.zeros(len(rays))
    active = np.ones(len(rays), bool)
    hit = np.zeros(len(rays), bool)
    for _ in range(most):
        away = distance(eye + depth[:, None] * rays, centres, radii)
        close = active & (away < 1e-4)
        hit |= close
        active &= ~close & (depth < 20.0)
        if not active.any():
            break
        depth = np.where(active, depth + away, depth)
    where = eye + depth[:, None] * rays
    shade = np.clip(normals(where, centres, radii, 1e-3) @ light, 0.1, 1.0)
    return np.where(hit, shade, 0.0), np.where(hit, depth, np.inf)


def make_arguments(scale):
    """A pinhole camera before four spheres."""
    n = 6 * scale
    y, x = np.mgrid[-0.6 : 0.6 : n * 1j, -0.8 : 0.8 : n * 1j]
    rays = np.stack([x.ravel(), y.ravel(), np.ones(n * n)], axis=1)
    rays /= np.linalg.norm(rays, axis=1)[:, None]
    centres = np.array([[0.0, 0.0, 5.0], [1.2, 0.6, 4.0], [-1.5, -0.4, 6.0], [0.4, -1.0, 4.5]])
    light = np.array([0.5, 0.7, -0.5]) / np.sqrt(0.99)
    return np.zeros(3), rays, centres, np.array([1.0, 0.5, 1.1, 0.4]), light, 30
