"""The tab key completes commands, options, choices and files, in real shells."""

import shutil
import subprocess

import pytest

from jaxdp.cli.entry import _parser


def _script(run, shell):
    status, out, err = run("completion", shell)
    assert (status, err) == (0, "")
    return out


def _completed(script, folder, *words):
    """What bash offers for the last word."""
    line = " ".join(f'"{word}"' for word in words)
    ask = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _jaxdp; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", ask], cwd=folder, capture_output=True, text=True, timeout=30
    )
    # Outside of a completion `compopt` is refused, silently.
    assert done.stderr == ""
    return [each for each in done.stdout.splitlines() if each]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(run, tmp_path):
    script = _script(run, "bash")
    (tmp_path / "my table.csv").touch()

    def completed(*words):
        return _completed(script, tmp_path, *words)

    commands = _parser()._subparsers._group_actions[0].choices
    assert {*commands, "-h", "--help", "--no-cache", "--version"} == {*completed("jaxdp", "")}
    for name, command in commands.items():
        flags = {flag for action in command._actions for flag in action.option_strings}
        assert flags <= {*completed("jaxdp", name, "")}
    assert completed("jaxdp", "co") == ["compare", "columns", "completion"]
    assert completed("jaxdp", "compare", "--label") == ["--label-noise"]
    assert completed("jaxdp", "compare", "--optimiser", "") == [
        "sgd",
        "momentum",
        "nesterov",
        "adam",
    ]
    assert completed("jaxdp", "completion", "f") == ["fish"]
    # Spaces in a name do not make two of it.
    assert completed("jaxdp", "compare", "--data", "my") == ["my table.csv"]
    assert completed("jaxdp", "fit", "my") == ["my table.csv"]
    # A number is the user's.
    assert completed("jaxdp", "compare", "--dim", "") == []
    assert completed("jaxdp", "nothing", "") == []


# A shell in place of the forked process: nothing of JAX runs there.
_FORKS = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")


@_FORKS
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_at_a_real_press_of_the_tab_key(run, tmp_path):
    pexpect = pytest.importorskip("pexpect")
    path = tmp_path / "completion"
    path.write_text(_script(run, "bash"))
    shell = pexpect.spawn("bash", ["--norc", "--noprofile"], timeout=20, encoding="utf-8")
    shell.sendline("bind 'set enable-bracketed-paste off'; PS1='ready> '")
    shell.sendline(f"source {path}; echo begun")
    shell.expect("\nbegun")
    shell.send("jaxdp compare --condi\t")
    shell.expect("--condition-number ")
    shell.close(force=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(run, tmp_path):
    path = tmp_path / "jaxdp.fish"
    path.write_text(_script(run, "fish"))

    def completed(line):
        ask = f"source {path}; complete -C '{line}'"
        done = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, timeout=30)
        return [each.split("\t")[0] for each in done.stdout.splitlines()]

    assert completed("jaxdp co") == ["compare", "completion"]
    assert completed("jaxdp compare --label") == ["--label-noise"]
    assert set(completed("jaxdp compare --optimiser ")) == {"sgd", "momentum", "nesterov", "adam"}


@_FORKS
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes(run, tmp_path):
    pexpect = pytest.importorskip("pexpect")
    path = tmp_path / "completion"
    path.write_text(_script(run, "zsh"))
    shell = pexpect.spawn("zsh", ["-f"], timeout=20, encoding="utf-8", dimensions=(40, 200))
    shell.sendline(f"autoload -U compinit; compinit -D -u; source {path}; echo be''gun")
    shell.expect("begun")
    for typed, completed in (("compare --condi", "tion-number"), ("account dp-g", "d")):
        shell.send(f"\x15jaxdp {typed}\t")
        shell.expect(completed)
    shell.close(force=True)
