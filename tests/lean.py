"""A device has nothing but the base dependencies: what must work there, checked there.

``make lean`` runs this with the Python of an environment that has ``pip install venn-testbed`` without any extra.
With ``--coordinator ADDR`` a device of that environment also joins a coordinator (its key: in ``$VENN_KEYS``, or at its
default place). The last line is ``N passed, N failed``; exits 1 if one failed.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import requires
from pathlib import Path

BASE = {"blake3", "cryptography", "grpcio", "grpcio-status", "protobuf", "numpy", "psutil", "typer"}
NOT_INSTALLED = ("grpc_health", "grpc_reflection", "jinja2", "matplotlib", "scipy", "sklearn", "uvloop", "yaml")
NOT_LOADED = {"pydantic", "rich"}  # some releases of Typer bring them along; a device need not wait for them
TIMEOUT_S = 60


def base_dependencies_only() -> None:
    names = {
        match[0].lower()
        for line in requires("venn-testbed") or []
        if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))
    }
    same(names, BASE)
    same([name for name in NOT_INSTALLED if importlib.util.find_spec(name) is not None], [])


def help_of(*command: str) -> None:
    done = venn(*command, "--help")
    same(done.returncode, 0)
    same(done.stderr, "")
    found("Usage: venn", done.stdout)


def agent_loads_little() -> None:
    loaded = loaded_by("import testbed.cli.main, device_agent.cli, device_agent.swarm_cli")
    same(loaded & (NOT_LOADED | {"coordinator"}), set())


def job_file_loads_numpy_only() -> None:
    beyond = loaded_by("import job_driver") - loaded_by("import numpy.random") - set(sys.stdlib_module_names)
    same(beyond, {"job_driver"})


def missing_extra_is_named(command: str, extra: str) -> None:
    done = venn(command, "x.yaml")
    same((done.returncode, done.stdout), (2, ""))
    same(len(done.stderr.splitlines()), 1)
    found(f"pip install 'venn-testbed[{extra}]'", done.stderr)
    as_json = venn(command, "x.yaml", "--json")
    same((as_json.returncode, as_json.stderr), (2, ""))
    found(f"venn-testbed[{extra}]", json.loads(as_json.stdout)["error"]["fix"])


def a_worker_runs() -> None:
    """The doctor starts a worker process and gives it a task. No coordinator listens on port 1."""
    checks = json.loads(venn("agent", "doctor", "--json", "--coordinator", "127.0.0.1:1").stdout)["checks"]
    passed = {check["name"]: check["passed"] for check in checks}
    del passed["confined"]  # up to the machine
    same(passed, {"machine": True, "worker": True, "data": True, "code": True, "coordinator": False})


def a_device_joins(coordinator: str) -> None:
    """It checks in, stays for a second, says goodbye, and has nothing more to do."""
    doctor = venn("agent", "doctor", "--coordinator", coordinator)
    same(doctor.returncode, 0, doctor.stdout + doctor.stderr)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.csv")
        trace.write_text("device,start_s,end_s\nlean,0,1\n")
        options = ("--name", "lean", "--trace", str(trace), "--dir", folder)
        joined = venn("agent", "--coordinator", coordinator, *options)
        same(joined.returncode, 0, joined.stderr)
        lines = Path(folder, "sessions.jsonl").read_text().splitlines()
        sessions = [json.loads(line) for line in lines]
        same([(line["event"], line.get("how")) for line in sessions], [("start", None), ("end", "goodbye")])


def venn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(str(Path(sys.executable).with_name("venn")), *arguments)


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that it loads."""
    done = run(sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)")
    same(done.returncode, 0, done.stderr)
    return {name.partition(".")[0] for name in done.stdout.split()}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Outside the checkout, so that only what is installed is found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        cwd=tempfile.gettempdir(),
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def same(got: object, expected: object, why: str = "") -> None:
    if got != expected:
        raise AssertionError(f"{got!r}, expected {expected!r} {why}".strip())


def found(part: str, text: str) -> None:
    if part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coordinator", metavar="ADDR", help="join this one, too")
    coordinator = parser.parse_args(argv).coordinator
    checks: dict[str, Callable[[], None]] = {
        "the base dependencies and no more": base_dependencies_only,
        "venn --help": partial(help_of),
        "venn agent --help": partial(help_of, "agent"),
        "venn swarm --help": partial(help_of, "swarm"),
        "an agent loads little": agent_loads_little,
        "a job file needs NumPy alone": job_file_loads_numpy_only,
        "venn run names its extra": partial(missing_extra_is_named, "run", "testbed"),
        "venn coordinator names its extra": partial(missing_extra_is_named, "coordinator", "coordinator"),
        "a worker runs a task": a_worker_runs,
    }
    if coordinator:
        checks["a device joins"] = partial(a_device_joins, coordinator)
    failed = 0
    for name, check in checks.items():
        try:
            check()
            print(f"ok      {name}")
        except Exception as error:
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
