"""Which data sets count as neighbours; C below is the norm that terms of a sum are clipped to."""

# One record is replaced by any other: a sum of clipped terms moves by 2C at most.
REPLACE_ONE = "replace-one"
# One record more or less: by C.
ADD_OR_REMOVE_ONE = "add-or-remove-one"
# One record is replaced by one that contributes zero: by C, and the number of records stays.
ZERO_OUT_ONE = "zero-out-one"

ADJACENCIES = (REPLACE_ONE, ADD_OR_REMOVE_ONE, ZERO_OUT_ONE)
