"""Which data sets count as neighbours; C below is the norm that terms of a sum are clipped to."""

# One record is replaced by any other: a sum moves by at most 2C.
REPLACE_ONE = "replace-one"
# One record more or less: by at most C.
ADD_OR_REMOVE_ONE = "add-or-remove-one"
# One record's contribution becomes zero: by at most C, with the same number of records.
ZERO_OUT_ONE = "zero-out-one"

ADJACENCIES = (REPLACE_ONE, ADD_OR_REMOVE_ONE, ZERO_OUT_ONE)
