from .model import Order, Total

__all__ = ["Order", "Total"]
