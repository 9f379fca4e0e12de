"""The testbed: starts a whole world of jobs and devices from one scenario file, records it and shows it."""

TYPE_CHECKING = False  # type checkers take it for typing's, which takes `venn --help` a while to import
if TYPE_CHECKING:
    from testbed.scenario import Scenario

__all__ = ["Scenario"]


def __getattr__(name: str) -> object:
    # On demand: `venn agent` goes through this package on devices that have neither pydantic nor PyYAML.
    if name == "Scenario":
        from testbed.scenario import Scenario

        return Scenario
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
