import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from venn.wire.admission import ROLES, default_dir, ensure_tokens, load_token
from venn.wire.errors import UsageError


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VENN_TOKENS", "VENN_DEVICE_TOKEN", "VENN_JOB_TOKEN", "VENN_ADMIN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_tokens_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "tokens"
    tokens = ensure_tokens(folder)
    assert ensure_tokens(folder) == tokens
    assert len({tokens.device, tokens.job, tokens.admin}) == 3
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for role in ROLES:
        assert load_token(role, dir=folder) == getattr(tokens, role)
        assert len(load_token(role, dir=folder)) == 64
        assert stat.S_IMODE((folder / role).stat().st_mode) == 0o600


def test_programs_that_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ensure_tokens, [tmp_path / "tokens"] * 32))) == 1
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == ["admin", "device", "job"]


def test_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_dir() == tmp_path / "state" / "venn" / "tokens"
    assert ensure_tokens().job == load_token("job")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_dir() == Path.home() / ".local/state/venn/tokens"
    monkeypatch.setenv("VENN_TOKENS", str(tmp_path))
    assert default_dir() == tmp_path


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ensure_tokens(tmp_path)
    monkeypatch.setenv("VENN_ADMIN_TOKEN", "ab" * 32)
    assert load_token("admin", dir=tmp_path) == "ab" * 32


@pytest.mark.parametrize(
    ("role", "reason"), [("device", "NO_TOKEN"), ("job", "TOKEN_UNSAFE"), ("admin", "TOKEN_DAMAGED")]
)
def test_what_is_wrong_with_a_token_is_said(role: str, reason: str, tmp_path: Path) -> None:
    ensure_tokens(tmp_path)
    (tmp_path / "device").unlink()
    (tmp_path / "job").chmod(0o640)
    (tmp_path / "admin").write_text("short\n")
    with pytest.raises(UsageError) as error:
        load_token(role, dir=tmp_path)  # type: ignore[arg-type]
    assert error.value.reason == reason
    assert str(tmp_path / role) in str(error.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another place"):
        ensure_tokens(tmp_path / "file" / "tokens")
