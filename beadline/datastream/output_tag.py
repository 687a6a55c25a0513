"""Names for side outputs, where PyFlink has them."""

from beadline.api.output_tag import OutputTag
from beadline.common.typeinfo import RowTypeInfo as RowTypeInfo
from beadline.common.typeinfo import TypeInformation as TypeInformation
from beadline.common.typeinfo import Types as Types

__all__ = ["OutputTag"]
