"""Private regression and classification of tables, against what one can install or copy down."""
