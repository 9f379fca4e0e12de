"""What YAML makes of a text, and what is refused before any key is looked at."""

import os
from pathlib import Path

import pytest

from testbed.scenario import ScenarioError, document
from testbed.scenario.document import MOST_BYTES, parse_document, parse_value, read_document
from testbed.scenario.errors import Places
from tests.fuzz.bounds import at_most
from tests.unit.scenario.conftest import PLAIN, problems


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse_document(text, "s.yaml")
    assert len(caught.value.problems) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("40", 40),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("2.5E-2", 0.025),
        ("true", True),
        ("False", False),
        ("15s", "15s"),
        ("1..4", "1..4"),
        ("20%", "20%"),
        ("4 GB", "4 GB"),
        ("exp(8s)", "exp(8s)"),
        ("lognormal(8s; 1.0)", "lognormal(8s; 1.0)"),
        ("phones.csv:cpu", "phones.csv:cpu"),
        ("memory >= 4 GB and cpu >= 7", "memory >= 4 GB and cpu >= 7"),
        ("2026-05-12", "2026-05-12"),
        ("'no'", "no"),
        ('"1:30"', "1:30"),
        ("9" * 400, "9" * 400),
        ("~", None),
    ],
)
def test_a_word_is_what_it_looks_like(word: str, value: object) -> None:
    root = parse_document(f"key: {word}\n", "s.yaml").root
    assert root == {"key": value}
    assert isinstance(root, dict)
    assert type(root["key"]) is type(value)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("1:30", 'YAML reads 1:30 as 90; write 90s for a time, or "1:30" in quotes for text'),
        ("1:02:03", 'YAML reads 1:02:03 as 3723; write 3723s for a time, or "1:02:03" in quotes for text'),
        ("no", 'YAML reads no as false; write false, or "no" in quotes for the word'),
        ("Yes", 'YAML reads Yes as true; write true, or "Yes" in quotes for the word'),
        ("on", 'YAML reads on as true; write true, or "on" in quotes for the word'),
        ("OFF", 'YAML reads OFF as false; write false, or "OFF" in quotes for the word'),
        ("010", 'YAML reads 010 as a number in base 8; write 10, or "010" in quotes for text'),
        ("0x10", 'YAML reads 0x10 as 16; write 16, or "0x10" in quotes for text'),
        ("1_000", 'YAML reads 1_000 as 1000; write 1000, or "1_000" in quotes for text'),
        (".inf", ".inf is not a finite number; leave the key out for no limit"),
        ("1e999", "1e999 is too large for a number; write a smaller one"),
    ],
)
def test_surprises_are_told_with_the_fix(word: str, told: str) -> None:
    assert refusal(f"a: 1\nb: {{c: {word}}}\n") == f"s.yaml:2: b.c: {told}"


def test_a_key_may_surprise_as_well() -> None:
    assert refusal("jobs:\n  no: 1\n") == (
        's.yaml:2: jobs.no: YAML reads no as false; write false, or "no" in quotes for the word'
    )


def test_duplicate_keys() -> None:
    assert refusal("jobs:\n  a: {demand: 1}\n  b: 2\n  a: 3\n") == (
        "s.yaml:4: jobs.a: a second time; the first is on line 2; keep one"
    )


def test_tabs() -> None:
    told = "a tab, where YAML allows only spaces; indent with spaces"
    assert refusal("jobs:\n\ta: 1\n") == f"s.yaml:2: {told}"
    assert refusal("jobs:\n  a: 1\n\tb: 2\n") == f"s.yaml:3: {told}"


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n", "---\n"])
def test_empty(text: str) -> None:
    if text == "---\n":
        assert parse_document(text, "s.yaml").root is None
    else:
        assert refusal(text) == "s.yaml:1: is empty; `venn new` makes a scenario to start from"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: {c: 1,\n", "s.yaml:3: the file ends where a value should be; is it cut off?"),
        ("a: 1\nb: {c: 1, d", "s.yaml:2: the file ends inside a mapping that begins on line 2; is it cut off?"),
        ("a: [1,\n  2", "s.yaml:2: the file ends inside a list that begins on line 1; is it cut off?"),
        ('a: "half', "s.yaml:1: the file ends inside a quoted text that begins on line 1; is it cut off?"),
        ("a: 1\nname\n", "s.yaml:3: a key without a colon; write key: value"),
        ("a: b: c\n", "s.yaml:1: a colon where no key can be; check the indentation, or put the text in quotes"),
        ("a: *b\n", "s.yaml:1: found undefined alias 'b'; an &anchor comes before its *alias"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2: a second document begins; one file is one scenario: remove the --- line"),
        ("a: \x07\n", "s.yaml:1: holds a character that YAML forbids (U+0007); remove it"),
        ("a: !!python/object:os.system x\n", "s.yaml:1: a: the tag tag:yaml.org,2002:python/object:os.system has no "
         "meaning here; leave it out"),
        ('a: !!int "3"\n', "s.yaml:1: a: a tag has no meaning here; leave it out"),
        ("? [a]\n: 1\n", "s.yaml:1: a key is a word"),
        ("a: &x [*x]\n", "s.yaml:1: a" + ".0" * 20 + ": is nested deeper than 20 levels; write it with fewer levels"),
    ],
)  # fmt: skip
def test_not_yaml(text: str, told: str) -> None:
    assert refusal(text) == told


def test_deep_nesting_ends_in_a_line() -> None:
    assert (
        refusal("a: " + "[" * 1000 + "]" * 1000)
        == "s.yaml:1: is nested deeper than 20 levels; write it with fewer levels"
    )
    assert refusal("a:\n" + "- " * 30) == "s.yaml:2: is nested deeper than 20 levels; write it with fewer levels"


def test_aliases_are_counted_as_often_as_they_are_used() -> None:
    text = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8))
    assert "has more than 50000 values, aliases included" in refusal(text)


def test_what_is_taken_in_is_counted_as_often_as_it_is() -> None:
    """Each mapping takes in the one before it nine times, so the last one is gone through 9 ** 19 times."""
    lines = [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 9)}]}}" for n in range(1, 20)]
    with at_most(1_000_000, 10_000_000):
        assert "has more than 50000 values, aliases included" in refusal("\n".join(["x0: &x0 {}", *lines]))


def test_a_mapping_that_takes_itself_in() -> None:
    told = "<< takes in the mapping that it stands in; remove it"
    assert refusal("a: 1\nb: &b {<<: *b}\n") == f"s.yaml:2: b: {told}"
    assert refusal("a: &a\n  b: &b {<<: *a}\n  <<: *b\n").endswith(told)


def test_mappings_that_take_in_others_one_after_the_other() -> None:
    chain = "\n".join(["x0: &x0 {a: 1}", *(f"x{n}: &x{n} {{<<: *x{n - 1}}}" for n in range(1, 20))])
    assert refusal(chain) == "s.yaml:1: x19.a: is nested deeper than 20 levels; write it with fewer levels"
    assert parse_value(chain[: chain.index("x19")], "s.yaml")["x18"] == {"a": 1}


def test_many_values_are_refused_before_all_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MOST_VALUES", 100)
    with at_most(60_000, 1_000_000):
        assert refusal("[" + "1," * 10_000 + "]") == "s.yaml:1: has more than 100 values; write fewer"


def test_a_key_that_is_taken_in_often_costs_the_same_each_time() -> None:
    """Where the places of all keys were gone through for each, it took a thousand million steps."""
    places = Places()
    for number in range(20_000):
        places.put(("c", number), "s.yaml:1", 1)
    with at_most(40_000, 100_000):
        for _ in range(1_000):
            places.put(("b", "x"), "s.yaml:2", 2)
    places.put(("c",), "s.yaml:3", 3)
    assert str(places.find(("c", 5))) == "s.yaml:3: c.5"


def test_anchors_and_merges() -> None:
    read = parse_document("base: &b {x: 1, y: 2}\na: {<<: *b, y: 3}\nb: *b\nc: {<<: [{z: 1, y: 9}, *b]}\n", "s.yaml")
    assert read.root == {
        "base": {"x": 1, "y": 2},
        "a": {"x": 1, "y": 3},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 9, "z": 1},
    }
    assert str(read.places.find(("a", "y"))) == "s.yaml:2: a.y"
    assert str(read.places.find(("a", "x"))) == "s.yaml:1: a.x"


def test_places_know_the_line_of_each_key() -> None:
    places = parse_document("a:\n  b: 1\n  c:\n    - 1\n    - {d: 2,\n       e: 3}\n", "s.yaml").places
    assert str(places.find(("a", "b"))) == "s.yaml:2: a.b"
    assert str(places.find(("a", "c", 1, "e"))) == "s.yaml:6: a.c.1.e"
    assert str(places.find(("a", "missing"))) == "s.yaml:1: a.missing"
    assert str(places.find(())) == "s.yaml:1"


def test_a_value_alone() -> None:
    assert parse_value("{a: [1, 2s]}", "--set x={a: [1, 2s]}") == {"a": [1, "2s"]}
    assert parse_value("", "--set x=") is None
    with pytest.raises(ScenarioError, match=r"^--set x=1:30: YAML reads 1:30 as 90; write 90s"):
        parse_value("1:30", "--set x=1:30")


def test_a_file_that_is_not_utf_8(folder: Path) -> None:
    assert problems(b"version: 1\nname: caf\xe9\n") == [
        "scenario.yaml:2: is not UTF-8 text (byte 0xe9); save it as UTF-8"
    ]


def test_a_byte_order_mark_is_no_problem(folder: Path) -> None:
    Path("s.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(Path("s.yaml")).root == {"a": 1}


def test_a_huge_file(folder: Path) -> None:
    assert problems(b"# " + b"x" * MOST_BYTES) == [
        "scenario.yaml: is 1.000002 MB; a scenario has at most 1 MB; is it the right file?"
    ]


def test_a_missing_file_and_a_folder(folder: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_document(Path("three-jbos.yaml"))
    assert str(caught.value) == (
        "three-jbos.yaml: no such file; `venn scenario list` shows those that come with it, `venn new` makes one"
    )
    with pytest.raises(ScenarioError, match=r"is a folder, not a scenario file"):
        read_document(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(folder: Path) -> None:
    Path("s.yaml").touch(mode=0)
    with pytest.raises(ScenarioError, match="cannot be read: Permission denied"):
        read_document(Path("s.yaml"))


@pytest.mark.parametrize("part", [n / 40 for n in range(40)])
def test_a_file_cut_anywhere_ends_in_one_line(folder: Path, part: float) -> None:
    for told in problems(PLAIN[: int(part * PLAIN.index("expect:"))]):
        assert "\n" not in told
        assert told.startswith("scenario.yaml")
