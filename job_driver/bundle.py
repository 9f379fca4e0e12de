"""A job file: loaded here, and packed as the bundle that travels to devices under its digest."""

import importlib.util
import io
import sys
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from job_driver.job import Job
from venn.wire.chunks import digest_of
from venn.wire.errors import ExitCode, UsageError, VennError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can say: the same file gives the same bytes


class JobError(VennError):
    """The failure of the job's own code after the job had begun: it does not finish."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True)
class JobFile:
    """A job, and the code that devices run for it."""

    job: Job
    path: Path
    code: bytes  # the bundle

    @cached_property
    def digest(self) -> bytes:
        """The digest of the code, which ``venn agent --allow-code`` names (in hex)."""
        return digest_of(self.code)


def load(path: Path) -> JobFile:
    """Import a job file. Raises UsageError, in one line, where it is not one."""
    code = pack(path)
    name = f"venn_job_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise _unfit(path, "this is not a Python file", "a job file's name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            "JOB_FILE", f"{type(error).__name__}: {error}", where=place(error, path), fix=_import_fix(error)
        ) from error
    job = getattr(module, "job", None)
    if not isinstance(job, Job):
        raise _unfit(path, "it has no Job named job", "end it with: job = Job(initial=..., on_device=...)")
    return JobFile(job, path, code)


def pack(path: Path) -> bytes:
    """Pack a job file into its bundle: a zip of that one file, the same bytes for the same file everywhere."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise _unfit(path, f"it cannot be read ({error.strerror})", "name a job file") from error
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as bundle:
        entry = zipfile.ZipInfo(path.name, _EPOCH)
        entry.create_system = 3  # Unix, whatever this machine is
        entry.external_attr = 0o100644 << 16
        bundle.writestr(entry, source)
    return packed.getvalue()


@contextmanager
def job_code(file: JobFile, function: str, kind: type[VennError] = JobError) -> Iterator[None]:
    """Turn what the job's own ``function`` raises inside into one line that names it and its place in the file."""
    try:
        yield
    except VennError:
        raise
    except Exception as error:
        message = f"{function} failed: {type(error).__name__}: {error}"
        raise kind("JOB_FILE", message, where=place(error, file.path)) from error


def place(error: BaseException, path: Path) -> str:
    """The place, FILE:LINE, in the job file where an error came from; the file alone if it came from elsewhere."""
    file = str(path.absolute())  # as importlib names it
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{path.name}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{path.name}:{lines[-1]}" if lines else path.name


def _import_fix(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install it, and name it in the job's packages; a job is one file, modules beside it do not travel"
    return ""


def _unfit(path: Path, message: str, fix: str) -> UsageError:
    return UsageError("JOB_FILE", message, where=str(path), fix=fix)
