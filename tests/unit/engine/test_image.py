"""Images: an engine that is made of one goes on as the engine that it was taken of, under every policy."""

import json

import pytest

from coordinator.engine.engine import Engine
from coordinator.engine.events import Event, JournalRotated
from coordinator.engine.image import engine_of, image_of
from coordinator.engine.record import RecordError, event_from_json, texts_of
from coordinator.policies.registry import load_policy, policy_names
from testbed.testing import engine as scripted
from testbed.testing.engine import ScriptedEngine, random_script
from tests.unit.engine.snapshot import snapshot

EVERY = 23  # events between two images


@pytest.mark.parametrize("name", policy_names())
def test_an_engine_made_of_its_image_goes_on_as_one_that_never_stopped(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hear, heard = ScriptedEngine._hear, 0

    def hear_and_restore(self: ScriptedEngine, event: Event) -> list[scripted.Effect]:
        nonlocal heard
        effects, heard = hear(self, event), heard + 1
        if heard % EVERY == 0:
            effects = effects + hear(self, JournalRotated())
            image = json.loads(json.dumps(image_of(self.engine)))
            self.engine = engine_of(image, self.engine.settings, load_policy(name))
        return effects

    monkeypatch.setattr(ScriptedEngine, "_hear", hear_and_restore)
    play = random_script(5, load_policy(name), steps=60)
    unbroken = Engine(play.engine.settings, load_policy(name))
    for now, event, effects in play.journal:
        assert texts_of(unbroken.handle(event_from_json(json.loads(event)), now)) == effects
    assert snapshot(unbroken) == snapshot(play.engine)
    assert heard > 5 * EVERY


def test_what_is_no_image_is_refused() -> None:
    play = ScriptedEngine()
    play.request(demand=1)
    play.handle(JournalRotated())
    image = json.loads(json.dumps(image_of(play.engine)))
    policy, settings = load_policy("fifo"), play.engine.settings
    for spoilt in (
        {},
        {**image, "objects": [[99]]},
        {**image, "objects": image["objects"][:-1]},
        {**image, "world": {**image["world"], "jobs": [99, 1]}},
        {**image, "deadlines": [[77, 1, 1.0]]},
    ):
        with pytest.raises(RecordError):
            engine_of(spoilt, settings, policy)


def test_an_image_holds_no_class_that_is_not_listed() -> None:
    play = ScriptedEngine()
    play.engine.world.devices["x"] = object()  # type: ignore[index, assignment]
    with pytest.raises(TypeError, match="no image holds a object"):
        image_of(play.engine)
