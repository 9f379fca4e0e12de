"""``venn profile``: kinds of devices and links, with the source of each value."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.world.profiles import Profile, is_link, load_profile, packaged_profiles
from venn.wire.command import Context, application, command, execute
from venn.wire.exits import write_line
from venn.wire.text import printable

app = application(several=True)


@app.callback()
def profile() -> None:
    """Profiles: how fast a kind of device and its link are."""


@app.command("list", epilog="Example: venn profile list")
@command
def list_(context: Context) -> int:
    """List the packaged profiles, for a fleet's `profile: pi-4` or `link: lte`."""
    profiles = [load_profile(name) for name in packaged_profiles()]
    if context.json:
        write_line(sys.stdout, json.dumps({"profiles": [_shape(each) for each in profiles]}))
        return 0
    for title, links in (("DEVICES", False), ("LINKS", True)):
        write_line(sys.stdout, title)
        for each in profiles:
            if is_link(each) == links:
                stated = ", ".join(f"{key} {value.value}" for key, value in each.values.items())
                write_line(sys.stdout, f"  {each.name:<12}{each.about}\n  {'':<12}{stated}")
    return 0


@app.command(epilog="Example: venn profile show pi-4")
@command
def show(
    context: Context,
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Profile of the list, or a file such as mine.yaml.",
            autocompletion=lambda: [*packaged_profiles()],
        ),
    ],
) -> int:
    """Print one profile, value by value, with the source of each."""
    found = load_profile(name, folder=Path.cwd())
    if context.json:
        write_line(sys.stdout, json.dumps(_shape(found)))
        return 0
    about = [printable(found.about, 200)] if found.about else []
    about += [f"extends {found.extends}"] if found.extends else []
    about += [f"link {found.link}"] if found.link else []
    write_line(sys.stdout, f"{found.name}: {', '.join(about)}")
    for key, value in found.values.items():
        source = printable(value.source, 500) or "no source stated"
        of = f" ({value.profile})" if value.profile != found.name else ""
        write_line(sys.stdout, f"  {key:<13}{value.value!s:<12} {source}{of}")
    return 0


def _shape(found: Profile) -> dict[str, object]:
    values = {
        key: {"value": value.value, "source": value.source, "profile": value.profile}
        for key, value in found.values.items()
    }
    return {
        "name": found.name,
        "kind": "link" if is_link(found) else "device",
        "about": found.about,
        "extends": found.extends,
        "link": found.link,
        "values": values,
    }


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn profile")
