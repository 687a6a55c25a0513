"""Names for side outputs, where PyFlink has them."""

from beadline.api.output_tag import OutputTag

__all__ = ["OutputTag"]
