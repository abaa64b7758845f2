"""The functions for `torch.compile`, library functions where PyTorch has them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def three_ops(x: Any, y: Any) -> Any:
    return (x + y) * x - y


def chain(x: Any, a: float, b: float) -> Any:
    return torch.tanh(a * x + b) * torch.exp(-x * x) + torch.where(x > 0, x, 0.01 * x)


def softmax(x: Any) -> Any:
    return F.softmax(x, dim=1)


def logsumexp(x: Any) -> Any:
    return torch.logsumexp(x, dim=1)


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    return F.layer_norm(x, (x.shape[1],), scale, shift, 1e-5)


def variance(x: Any) -> Any:
    return x.var(correction=0)


def sum_of_squares(x: Any) -> Any:
    return (x * x).sum()


def ten_ops(x: Any, y: Any) -> Any:
    u = torch.exp(-x * x)
    v = torch.tanh(y + u)
    return (u * v - x) / (1.0 + v * v) + 0.5 * y


def product(x: Any, y: Any) -> Any:
    return x @ y


def turned(x: Any, y: Any) -> Any:
    return x @ y.T


def turned_left(x: Any, y: Any) -> Any:
    return x.T @ y


def every_other_row(x: Any, y: Any) -> Any:
    return x[::2] @ y


def gram(x: Any) -> Any:
    return x.T @ x


_PLAIN = (
    *(three_ops, chain, softmax, logsumexp, layernorm, variance, sum_of_squares, ten_ops),
    *(product, turned, turned_left, every_other_row, gram),
)
FUNCTIONS = {function.__name__: function for function in _PLAIN}
