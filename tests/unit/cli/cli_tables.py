"""Tables that tests of the command line write."""


def written(path, names, *columns):
    """The path of a table with these columns, and with a line of their names if there are any."""
    rows = [names, *zip(*columns, strict=True)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows if len(row) > 0))
    return path
