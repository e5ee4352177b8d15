"""The commands themselves, apart from how they are parsed."""
