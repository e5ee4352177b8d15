"""Programs that have run are known, and forgotten before they fill the memory."""

from jaxdp.explorer.views.background import Programs


def test_programs_are_known_until_they_are_too_many():
    forgotten = []
    programs = Programs(most=3, forget=lambda: forgotten.append("all"))
    for name in ("a", "b", "c", "b"):
        programs.add(name)
    assert [name in programs for name in "abcd"] == [True, True, True, False]
    assert not forgotten
    # The fourth is forgotten with the others: JAX has to compile it again as well.
    programs.add("d")
    assert forgotten == ["all"]
    assert not any(name in programs for name in "abcd")
    programs.add("d")
    assert "d" in programs
    assert forgotten == ["all"]
