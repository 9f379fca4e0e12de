"""Commands that show what is installed: ``venn policy`` and ``venn profile``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from coordinator.policies.registry import PolicyError, policy_names, summary
from testbed.cli.shared import answer
from testbed.world.profiles import Profile, is_link, load_profile, packaged_profiles
from venn.wire.command import Context, application, command
from venn.wire.text import printable

app = application()
policy = application("Policies: which job gets the next device.", several=True)
profile = application("Profiles: how fast a kind of device and its link are.", several=True)
app.add_typer(policy, name="policy")
app.add_typer(profile, name="profile")


@policy.command("list", epilog="Example: venn policy list")
@command
def list_policies(context: Context) -> int:
    """List the installed policies."""
    rows = {name: _summary(name) for name in policy_names()}
    width = max(len(name) for name in rows)
    lines = [f"{name:{width}}  {printable(text)}" for name, text in rows.items()]
    if not context.quiet:
        lines += ["", "or FILE.py:NAME, a class of your own with `name` and `plan(view)`"]
    answer(context, {"policies": [{"name": name, "summary": text} for name, text in rows.items()]}, lines)
    return 0


def _summary(name: str) -> str:
    """The first line about a policy. A broken plug-in must not hide the others: of that, what is wrong with it."""
    try:
        return summary(name)
    except PolicyError as error:
        return str(error)


@profile.command("list", epilog="Example: venn profile list")
@command
def list_profiles(context: Context) -> int:
    """List the packaged profiles, for a fleet's `profile: pi-4` or `link: lte`."""
    profiles = [load_profile(name) for name in packaged_profiles()]
    answer(context, {"profiles": [_shape(each) for each in profiles]}, _listed(profiles))
    return 0


def _listed(profiles: list[Profile]) -> Iterator[str]:
    for title, links in (("DEVICES", False), ("LINKS", True)):
        yield title
        for each in profiles:
            if is_link(each) == links:
                stated = ", ".join(f"{key} {value.value}" for key, value in each.values.items())
                yield f"  {each.name:<12}{each.about}\n  {'':<12}{stated}"


@profile.command(epilog="Example: venn profile show pi-4")
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
    answer(context, _shape(found), _told(found))
    return 0


def _told(found: Profile) -> Iterator[str]:
    about = [printable(found.about, 200)] if found.about else []
    about += [f"extends {found.extends}"] if found.extends else []
    about += [f"link {found.link}"] if found.link else []
    yield f"{found.name}: {', '.join(about)}"
    for key, value in found.values.items():
        source = printable(value.source, 500) or "no source stated"
        of = f" ({value.profile})" if value.profile != found.name else ""
        yield f"  {key:<13}{value.value!s:<12} {source}{of}"


def _shape(found: Profile) -> dict[str, object]:
    values = {
        key: {"value": value.value, "source": value.source, "profile": value.profile}
        for key, value in found.values.items()
    }
    kind = "link" if is_link(found) else "device"
    stated = {"name": found.name, "kind": kind, "about": found.about, "extends": found.extends, "link": found.link}
    return {**stated, "values": values}
