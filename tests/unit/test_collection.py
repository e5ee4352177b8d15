"""Test files build nothing when they are imported, because every process imports them all."""

# Keys and numbers of descriptions are small programs that many files share.
_MOST = 40


def test_importing_all_test_files_compiles_few_programs(compiled_at_collection):
    assert sum(compiled_at_collection.values()) <= _MOST, (
        f"made when the file is imported, and not by a function or a fixture: "
        f"{compiled_at_collection}"
    )
