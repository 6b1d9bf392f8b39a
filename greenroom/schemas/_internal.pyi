from greenroom.schemas.bounded_check import (
    BoundedValidator as BoundedValidator,
    TooMuchWorkError as TooMuchWorkError,
)
from greenroom.schemas.validation import (
    INLINE_STEPS as INLINE_STEPS,
    MAX_STEPS as MAX_STEPS,
    InputValidator as InputValidator,
    is_misfit as is_misfit,
    list_lines as list_lines,
    read_integer as read_integer,
)
