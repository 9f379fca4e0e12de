"""The coordinator's secret: kept for its owner alone, and never used itself."""

import stat
from pathlib import Path

import pytest

from coordinator.service.secret import SECRET, Secret, kept_secret
from venn.wire.errors import UsageError


def test_a_folder_has_one_secret_that_only_its_owner_reads(tmp_path: Path) -> None:
    first, again = kept_secret(tmp_path), kept_secret(tmp_path)
    assert first.derive("ticket", "a") == again.derive("ticket", "a")
    assert stat.S_IMODE((tmp_path / SECRET).stat().st_mode) == 0o600


def test_keys_differ_by_purpose_subject_and_secret() -> None:
    secret = Secret(bytes(32))
    keys = {secret.derive("ticket", "a"), secret.derive("ticket", "b"), secret.derive("other", "a")}
    keys |= {secret.derive("ticket", "a", "b"), secret.derive("ticket", "ab"), Secret().derive("ticket", "a")}
    assert len(keys) == 6
    assert {len(key) for key in keys} == {32}


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    kept_secret(tmp_path)
    (tmp_path / SECRET).chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        kept_secret(tmp_path)


def test_half_a_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / SECRET).write_bytes(bytes(16))
    (tmp_path / SECRET).chmod(0o600)
    with pytest.raises(UsageError, match="has 16 bytes"):
        kept_secret(tmp_path)
