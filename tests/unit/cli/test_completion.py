"""Completion, driven in the shells that this machine has."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli.commands import COMMANDS
from testbed.cli.main import main

# A line to complete, and some of what may come next. The first ones are driven in the shells, too.
CASES = {
    "venn ": {"run", "compare", "bench", "agent"},
    "venn --sh": {"--show-completion"},
    "venn policy ": {"list"},
    "venn agent doctor --da": {"--data"},
    "venn run my-study/": {"my-study/scenario.yaml"},
    "venn be": {"bench"},
    "venn bench ro": {"round"},
    "venn bench --js": {"--json"},
    "venn job ": {"run", "check", "list", "wait", "cancel"},
    "venn job run --held": {"--held-out"},
    "venn agent doc": {"doctor"},
    "venn agent --cp": {"--cpu"},
    "venn run thr": {"three-jobs"},
    "venn run --pol": {"--policy"},
    "venn run --policy venn-p": {"venn-plus"},
    "venn scenario check sto": {"storm"},
    "venn compare even sma": {"small"},
}
SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"this machine has no {name}"))
    for name in ("bash", "zsh", "fish")
]
# Each prints what it offers for $1. Completion in zsh takes a terminal: its own module gives it one.
DRIVERS = {
    "bash": """
eval "$(venn --show-completion bash)"
read -ra COMP_WORDS <<<"$1"
if [[ $1 == *' ' ]]; then COMP_WORDS+=(''); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_venn_completion venn
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= TERM=dumb; bindkey -e; stty -echo; autoload -Uz compinit; compinit -u -D"
zpty -w shell 'eval "$(venn --show-completion zsh)"'
zpty -w shell 'zle -C offered list-choices _offered; _offered() {
  compadd() {
    local -a names; local i; for (( i = 1; i <= $#; i++ )); do [[ $argv[i] == -[ad] ]] && break; done
    builtin compadd -O names "$@"; print -rl -- "OFFERED "$^names; builtin compadd "$@"
  }
  _main_complete; unfunction compadd; print END-OF-OFFERS
}; bindkey "^T" offered; print READY-""NOW'
zpty -r shell line '*READY-NOW*'
zpty -w -n shell "$1"$'\\C-T'
zpty -r shell line '*END-OF-OFFERS*'
print -r -- "$line" | tr -d '\\r' | sed -n 's/.*OFFERED //p'
""",
    "fish": """
venn --show-completion fish | source
complete --do-complete "$argv[1]" | cut -f 1
""",
}
# What the line becomes with one Tab in a shell that has just started: it is printed in place of being run.
FIRST_TAB = """
zmodload zsh/zpty
zpty shell TERM=dumb zsh -i
zpty -w shell 'bindkey -e; stty -echo; print READY-""NOW'
zpty -r shell line '*READY-NOW*'
zpty -w shell $'venn run three\\C-I\\C-Aprint TYP""ED \\C-E; print DO""NE'
zpty -r shell line '*DONE*'
print -r -- "$line"
"""


@pytest.fixture
def shell_folder(tmp_path: Path) -> Path:
    """An empty home, ``venn`` on the path, and a scenario one folder below."""
    venn = tmp_path / "bin" / "venn"
    venn.parent.mkdir()
    venn.write_text(f'#!/bin/sh\nexec {sys.executable} -m testbed.cli.main "$@"\n')
    venn.chmod(0o755)
    (tmp_path / "my-study").mkdir()
    (tmp_path / "my-study" / "scenario.yaml").touch()
    return tmp_path


def in_shell(shell: str, script: str, *arguments: str, home: Path, **variables: str) -> str:
    environment = (
        os.environ
        | variables
        | {
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
    )
    flags = {"bash": ("--norc",), "zsh": ("-f",), "fish": ("--no-config",)}[shell]
    file = home / f"driver.{shell}"
    file.write_text(script)
    done = subprocess.run(
        [shell, *flags, str(file), *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_shell_offers(shell: str, shell_folder: Path) -> None:
    for line, expected in list(CASES.items())[:5]:
        offered = in_shell(shell, DRIVERS[shell], line, home=shell_folder).split()
        assert expected <= set(offered), line


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_installed_is_a_script_of_the_shell(shell: str, shell_folder: Path) -> None:
    told = in_shell(shell, "venn --install-completion $SHELL_NAME", home=shell_folder, SHELL_NAME=shell)
    script = Path(told.removeprefix("wrote ").partition(";")[0])
    assert script.is_relative_to(shell_folder)
    assert script.read_text().strip() == in_shell(shell, f"venn --show-completion {shell}", home=shell_folder).strip()
    in_shell(shell, f"{shell} -n {script}", home=shell_folder)


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell.values == ("zsh",)])
def test_the_first_tab_of_a_new_shell_completes(shell: str, shell_folder: Path) -> None:
    in_shell(shell, "venn --install-completion zsh", home=shell_folder)
    assert "TYPED venn run three-jobs DONE" in " ".join(in_shell(shell, FIRST_TAB, home=shell_folder).split())


@pytest.fixture
def offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell_folder: Path
) -> Callable[[str], set[str]]:
    """What is offered for a line, as bash asks."""
    monkeypatch.chdir(shell_folder)

    def offered(line: str) -> set[str]:
        monkeypatch.setenv("_VENN_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert main([]) == 0
        return set(capsys.readouterr().out.split())

    return offered


@pytest.mark.parametrize("line", CASES)
def test_what_is_offered(line: str, offered: Callable[[str], set[str]]) -> None:
    assert CASES[line] <= offered(line)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_offers_its_options(name: str, offered: Callable[[str], set[str]]) -> None:
    assert "--help" in offered(f"venn {name} -")


def test_no_command_is_imported_to_name_all(
    monkeypatch: pytest.MonkeyPatch, offered: Callable[[str], set[str]]
) -> None:
    monkeypatch.setattr("testbed.cli.completion.import_module", None)
    assert offered("venn ") == set(COMMANDS)


def test_what_needs_an_extra_offers_nothing(
    monkeypatch: pytest.MonkeyPatch, offered: Callable[[str], set[str]]
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr("testbed.cli.completion.import_module", missing)
    assert offered("venn run ") == set()


def test_another_shell_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["--install-completion"]) == 2
    assert "name one of bash, zsh, fish" in capsys.readouterr().err
