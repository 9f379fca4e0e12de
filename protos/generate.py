"""Generate the stubs under protos/venn/v1 from the .proto files beside them.

They are committed, because a Pi must not need a compiler. Generate them with the oldest grpcio-tools
that we support: a stub demands a runtime at least as new as its generator.

    python protos/generate.py            # write
    python protos/generate.py --check    # exit 1 if what is committed differs

Needs the extra ``protos`` (pinned versions) in the Python that runs it.
"""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OUTPUTS = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def generate(target: Path) -> None:
    from importlib.resources import files

    from grpc_tools import protoc

    # the plugins stand beside this interpreter
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    sources = [str(path) for path in sorted((ROOT / "venn" / "v1").glob("*.proto"))]
    outputs = [f"--{kind}_out={target}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    well_known = str(files("grpc_tools") / "_proto")
    if protoc.main(["protoc", f"-I{ROOT}", f"-I{well_known}", *outputs, *sources]) != 0:
        raise SystemExit("protoc failed")


def stubs(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (root / "venn" / "v1").iterdir() if p.name.endswith(OUTPUTS)}


def main(argv: list[str]) -> int:
    if argv == ["--check"]:
        with tempfile.TemporaryDirectory() as scratch:
            generate(Path(scratch))
            fresh, committed = stubs(Path(scratch)), stubs(ROOT)
        differing = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
        if differing:
            print(f"stubs differ from the .proto files: {', '.join(differing)}; run: make protos", file=sys.stderr)
        return 1 if differing else 0
    if argv:
        print("usage: python protos/generate.py [--check]", file=sys.stderr)
        return 2
    generate(ROOT)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
