"""Private regression and classification of tables, against published and installable methods."""
