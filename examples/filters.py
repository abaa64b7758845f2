"""Image filters: a 3x3 convolution, a median of five, and Sobel edges of a grey image."""

import numpy as np


def convolve(image, kernel):
    out = np.zeros(image.shape)
    for dy in range(3):
        for dx in range(3):
            rows = slice(dy, image.shape[0] - 2 + dy)
            columns = slice(dx, image.shape[1] - 2 + dx)
            out[1:-1, 1:-1] += kernel[dy, dx] * image[rows, columns]
    return out


def median_of_five(image):
    """The median of a pixel and its four neighbours, by exchanging."""
    a, b = image[:-2, 1:-1], image[2:, 1:-1]
    c, d, e = image[1:-1, :-2], image[1:-1, 2:], image[1:-1, 1:-1]
    low = np.maximum(np.minimum(a, b), np.minimum(c, d))
    high = np.minimum(np.maximum(a, b), np.maximum(c, d))
    out = image.copy()
    out[1:-1, 1:-1] = np.maximum(np.minimum(low, high), np.minimum(np.maximum(low, high), e))
    return out


def main(image, kernel):
    """Smoothed, cleaned, and the edges as bytes."""
    smooth = convolve(image, kernel)
    clean = median_of_five(image)
    wide = clean.astype(np.int32)
    gx = np.zeros(image.shape, np.int32)
    gy = np.zeros(image.shape, np.int32)
    gx[1:-1, 1:-1] = (
        wide[:-2, 2:] + 2 * wide[1:-1, 2:] + wide[2:, 2:]
        - wide[:-2, :-2] - 2 * wide[1:-1, :-2] - wide[2:, :-2]
    )  # fmt: skip
    gy[1:-1, 1:-1] = (
        wide[2:, :-2] + 2 * wide[2:, 1:-1] + wide[2:, 2:]
        - wide[:-2, :-2] - 2 * wide[:-2, 1:-1] - wide[:-2, 2:]
    )  # fmt: skip
    edges = np.clip(np.abs(gx) + np.abs(gy), 0, 255).astype(np.uint8)
    return smooth, clean, edges


def make_arguments(scale):
    """A disc on a slope, with specks."""
    rng = np.random.default_rng(19)
    n = 10 + 12 * scale
    y, x = np.mgrid[:n, :n]
    image = 60 + 100 * ((y - n / 2) ** 2 + (x - n / 2) ** 2 < n * n / 9) + x % 40
    image = np.where(rng.random((n, n)) < 0.03, 255, image).astype(np.uint8)
    return image, np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16.0
