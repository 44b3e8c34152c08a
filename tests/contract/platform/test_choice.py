"""What of the notes that were found an answer tells."""

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from contract.platform.answer import NOT_IN_THESE_WORDS, NOT_IN_THESE_WORDS_OF_SEVERAL, NOTHING_FOUND, frames
from contract.platform.choice import choose
from contract.platform.query import Term
from contract.platform.question import Question
from contract.platform.search import Found, Hit
from tests.contract.platform.test_ask import ask, check

Write = Callable[[str, str | bytes], None]


@pytest.fixture
def answer(client: httpx.Client, brain: str) -> Callable[[str], str]:
    """What is answered, held against the laws of every answer."""

    def answered(question: str) -> str:
        frames = ask(client, brain, question)
        hits = client.get(f"{brain}/search", params={"q": question, "top_k": 50}).json()["hits"]
        return check(frames, {hit["chunk_id"]: hit["content"] for hit in hits})

    return answered


Answer = Callable[[str], str]

RETRY = """# Retry helper

We use this one everywhere instead of a library:

```python
def retry(call, attempts=3):
    for attempt in range(attempts):
        pass
```

It only catches ConnectionError on purpose.
"""


def test_code_is_told_whole_and_in_its_lines(write: Write, answer: Answer) -> None:
    write("retry.md", RETRY)
    code = RETRY.partition("\n\n")[2].partition("\n\nIt only")[0]
    assert answer("give me the retry function") == code


def test_of_several_pieces_of_code_the_one_that_is_meant_is_told(write: Write, answer: Answer) -> None:
    write("git.md", "# Git\n\nUndo the commit:\n\n```\ngit reset\n```\n\nDelete a branch:\n\n```\ngit push -d\n```\n")
    assert answer("how do I undo a commit in git?") == "Undo the commit:\n\n```\ngit reset\n```"


def test_a_list_is_told_whole(write: Write, answer: Answer) -> None:
    write("onboarding.md", "# Onboarding\n\nNew hires get a laptop. They should read the handbook.\n")
    write("reading.md", "# Books to read\n- Piranesi\n- A Pattern Language\n")
    assert answer("what books should I read?") == "- Piranesi\n- A Pattern Language"


def test_the_list_below_the_heading_that_is_meant_is_told(write: Write, answer: Answer) -> None:
    write("gifts.md", "# Gift ideas\n## Mia\n- a pen\n## Dad\n- bird feeder\n- hat\n## Noor\n- Cascadia\n")
    assert answer("gift ideas for dad") == "- bird feeder\n- hat"


def test_one_item_is_told_where_one_is_asked_for(write: Write, answer: Answer) -> None:
    write("birthdays.md", "# Birthdays\n\n- Mia: 9 June\n- Dad: 22 November\n")
    assert answer("when is Mia's birthday?") == "Mia: 9 June"


def test_a_row_is_told_of_a_table(write: Write, answer: Answer) -> None:
    write("servers.md", "# Servers\n\n| Host | Runs |\n|---|---|\n| alder | Postgres |\n| cedar | Grafana |\n")
    assert answer("what runs on cedar?") == "cedar | Grafana"


def test_steps_are_told_and_not_a_note_that_only_has_the_words(write: Write, answer: Answer) -> None:
    write(
        "incident.md", "# TLS outage\n\nThe api was down. We tried a rollback, but the rollback did not help the api.\n"
    )
    for number in range(6):
        write(f"{number}.md", f"# Plant {number}\n\nWater it on day {number}.\n")
    write("runbook.md", "# How to roll back the API\n\n1. Find the tag.\n2. Run `make deploy`.\n")
    assert answer("how to rollback the api") == "1. Find the tag.\n2. Run `make deploy`."


def test_a_recipe_is_told_whole(write: Write, answer: Answer) -> None:
    body = "## Ingredients\n- 2 eggs\n- flour\n\n## Method\n1. Whisk.\n2. Fry."
    write("pancakes.md", f"# Pancakes\n\n{body}\n")
    assert answer("pancake recipe") == body


def test_a_sentence_is_told_whole_with_the_title_in_it(write: Write, answer: Answer) -> None:
    write(
        "onboarding.md",
        "# Onboarding\n\nYou get a badge. Dr. Weiss does the eye test in week two. Then comes access.\n",
    )
    assert answer("who does the eye test?") == "Dr. Weiss does the eye test in week two."


def test_the_sentence_below_a_heading_is_told_without_it(write: Write, answer: Answer) -> None:
    write("vpn.md", "# VPN\nInstall WireGuard first.\n## Limits\nIt drops after eight hours.\n")
    assert answer("after how many hours does the VPN drop?") == "It drops after eight hours."


def test_two_notes_are_told_where_two_things_are_asked(write: Write, answer: Answer) -> None:
    write("opening.md", "# Bakery\n\nIt rained. The bakery opens at seven. Cakes sell out early.\n")
    write("people.md", "# People\n\nThe bakery has two who bake: Ana and Luis.\n")
    told = answer("When does the bakery open, and who bakes there?")
    assert "The bakery opens at seven." in told
    assert "Ana and Luis" in told
    assert "rained" not in told


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_two_notes_that_disagree_the_newer_one_is_told(write: Write, answer: Answer, newest_first: bool) -> None:
    write("march.md", "# Marketing budget\n\nThe marketing budget for this year is 40,000 euros. It was agreed.\n")
    write("may.md", "# Marketing budget, revised\n\nThe marketing budget for this year is 25,000 euros.\n")
    if newest_first:
        write("march.md", "# Marketing budget\n\nThe marketing budget for this year is 40,000 euros after all.\n")
    assert ("40,000" in answer("what is the marketing budget?")) is newest_first
    assert ("25,000" in answer("what is the marketing budget?")) is not newest_first


def test_dates_in_names_tell_which_note_is_newer(write: Write, answer: Answer) -> None:
    write("oncall-2026-05-01.md", "# On call\n\nTomasz is on call this month.\n")
    write("oncall-2026-04-01.md", "# On call\n\nPriya is on call this month.\n")
    assert answer("who is on call this month?") == "Tomasz is on call this month."


def test_the_older_note_is_told_if_only_it_has_what_is_asked_for(write: Write, answer: Answer) -> None:
    write("old.md", "# Budget\n\nThe budget of 2025 was 40,000 euros.\n")
    write("new.md", "# Budget\n\nThe budget of 2026 is 25,000 euros.\n")
    assert answer("what was the budget of 2025?") == "The budget of 2025 was 40,000 euros."


@pytest.mark.parametrize(
    "question",
    ["when does the theatre open?", "recipe for apple pie", "what is Marta's phone number?", "how tall is it"],
)
def test_a_note_that_only_has_a_word_of_the_question_is_not_told(write: Write, answer: Answer, question: str) -> None:
    write("practice.md", "# Practice\n\nThey open at eight. Marta works there.\n")
    write("wine.md", "# Wine\n\nThe Riesling is dry, with some apple in it.\n")
    write("bread.md", "# Bread\n\nMix flour and water. Bake it.\n")
    assert answer(question) == "This brain holds nothing on that."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what about INV-20417?", "Invoice INV-20417 is unpaid."),
        ("INV-20417 and INV-99999", "Invoice INV-20417 is unpaid."),
        ("INV-99999", NOTHING_FOUND),
        ("is invoice INV-20418 unpaid?", NOTHING_FOUND),
    ],
)
def test_a_note_with_another_number_of_the_same_kind_is_not_told(
    write: Write, answer: Answer, question: str, expected: str
) -> None:
    write("invoice.md", "Invoice INV-20417 is unpaid.")
    write("other.md", "The garage opens at nine.")
    assert answer(question) == expected


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("冰箱保修到什么时候", "冰箱的保修期到明年六月，发票在蓝色文件夹里。"),
        ("회의는 언제 있습니까", "회의는 매주 화요일 오전 열 시에 3층 회의실에서 합니다."),
    ],
)
def test_pairs_of_characters_that_a_question_asks_with_are_no_part_of_its_subject(
    write: Write, answer: Answer, question: str, note: str
) -> None:
    write("note.md", note)
    for number, other in enumerate(
        ["会议室的投影仪坏了。", "部署脚本在这里。", "열쇠는 서랍에 있습니다.", "a", "b", "c"]
    ):
        write(f"{number}.md", other)
    assert answer(question) == note


def test_the_sentence_with_the_time_is_told_for_when(write: Write, answer: Answer) -> None:
    write("trip.md", "# Trip\n\nThe ferry was expensive. It leaves on 3 May at 9:15. Bring food.\n")
    assert "3 May at 9:15" in answer("when is the ferry?")


TERMS = [Term("hand", '"hands"', is_gram=False, chunks=0, weight=5.0)]


def by_meaning(text: str, score: float = 0.3, semantic: float | None = 0.8, keyword: float = 0.0) -> Found:
    return Found([hit_of("a", text, score, semantic, keyword)], TERMS)


def hit_of(name: str, text: str, score: float, semantic: float | None, keyword: float = 0.0) -> Hit:
    moment = "2026-01-01T00:00:00+00:00"
    return Hit(score, f"{name}.md", name, text, 0, f"doc_{name}", f"chk_{name}", {}, moment, keyword, semantic)


def said(found: Found) -> list[str]:
    return [quote.said for quote in choose(found, Question.read("how are my hands protected?"))]


def test_a_short_note_that_was_found_by_its_meaning_is_told_whole() -> None:
    assert said(by_meaning("Oil the gears weekly. Wear gloves.")) == ["Oil the gears weekly. Wear gloves."]


def test_a_long_note_that_was_found_by_its_meaning_is_told_by_its_beginning() -> None:
    (opening,) = said(by_meaning("Oil the gears weekly. " * 60))
    assert opening.startswith("Oil the gears weekly. Oil")
    assert opening.endswith("weekly.")
    assert len(opening) <= 700


@pytest.mark.parametrize("semantic", [None, 0.2])
def test_a_hit_without_a_word_of_the_question_is_not_told_if_it_means_little(semantic: float | None) -> None:
    assert said(by_meaning("Oil the gears weekly.", 0.3, semantic)) == []
    assert said(by_meaning("Oil the gears weekly.", 0.6, semantic)) == ["Oil the gears weekly."]
    assert said(by_meaning("Mind your hands.", 0.3, semantic, 0.5)) == ["Mind your hands."]
    assert said(by_meaning("Mind your hands.", 0.05, semantic, 0.5)) == []


@pytest.mark.parametrize(("keyword", "semantic"), [(0.44, 0.3), (0.45, 0.29), (0.44, None)])
def test_a_note_with_some_words_of_the_question_is_told_unless_it_is_known_to_be_about_something_else(
    keyword: float, semantic: float | None
) -> None:
    assert said(by_meaning("Mind your hands.", 0.3, semantic, keyword)) == ["Mind your hands."]
    assert said(by_meaning("Mind your hands.", 0.3, 0.29, 0.44)) == []


def test_of_notes_that_mean_about_the_same_none_is_told_and_one_that_stands_out_is() -> None:
    gloves = hit_of("a", "Wear gloves.", 0.36, 0.9)
    assert said(Found([gloves, hit_of("b", "Oil the gears.", 0.32, 0.8)], TERMS)) == []
    assert said(Found([gloves, hit_of("b", "Oil the gears.", 0.2, 0.5)], TERMS)) == ["Wear gloves."]


def told(found: Found, question: str = "how are my hands protected?") -> str:
    """The whole answer, held against the laws of every answer."""
    return check(list(frames(found, question)), {hit.chunk_id: hit.text for hit in found.hits})


def test_of_notes_that_do_not_answer_the_nearest_is_told_and_called_no_more_than_that() -> None:
    gloves = hit_of("a", "Wear gloves.", 0.3, 0.5)
    near = Found([gloves, hit_of("b", "Oil the gears.", 0.25, 0.3)], TERMS)
    assert said(near) == []
    assert told(near) == f"{NOT_IN_THESE_WORDS} Wear gloves."
    assert told(Found([gloves, hit_of("b", "- Oil\n- Gears", 0.25, 0.3)], TERMS)).endswith("Wear gloves.")


def test_notes_that_are_about_as_near_are_told_together_the_nearest_first_each_apart() -> None:
    hits = [hit_of("a", "Wear gloves. Or not.", 0.3, 0.8), hit_of("b", "Oil the gears.", 0.25, 0.9)]
    assert told(Found(hits, TERMS)) == f"{NOT_IN_THESE_WORDS_OF_SEVERAL}\n\nOil the gears.\n\nWear gloves. Or not."


def test_of_many_notes_that_are_about_as_near_three_are_told() -> None:
    hits = [hit_of(name, f"Note {name}.", 0.3, 0.8) for name in "abcde"]
    assert told(Found(hits, TERMS)) == f"{NOT_IN_THESE_WORDS_OF_SEVERAL}\n\nNote a.\n\nNote b.\n\nNote c."


def test_notes_that_are_not_near_are_not_told_beside_the_nearest() -> None:
    hits = [hit_of("a", "Wear gloves.", 0.3, 0.45), hit_of("b", "Oil the gears.", 0.25, 0.39)]
    assert told(Found(hits, TERMS)) == f"{NOT_IN_THESE_WORDS} Wear gloves."


def test_a_note_with_a_word_of_the_question_must_be_further_ahead_to_be_told_as_the_nearest() -> None:
    terms = [*TERMS, Term("feet", '"feet"', is_gram=False, chunks=1, weight=1.0)]
    boots, other = hit_of("a", "Wear boots on your feet.", 0.4, 0.9, 0.2), hit_of("b", "Oil the gears.", 0.25, 0.65)
    assert told(Found([boots, other], terms)) == NOTHING_FOUND
    assert told(Found([boots, replace(other, semantic=0.55)], terms)) == f"{NOT_IN_THESE_WORDS} {boots.text}"
    assert told(Found([replace(boots, text="Wear boots.", keyword=0.0), other], terms)).endswith("Wear boots.")


@pytest.mark.parametrize("semantic", [None, 0.1, 0.35])
def test_a_note_that_is_not_near_is_not_told_as_the_nearest(semantic: float | None) -> None:
    assert told(by_meaning("Oil the gears weekly.", 0.3, semantic)) == NOTHING_FOUND


def test_the_nearest_note_is_not_told_for_an_address_that_it_does_not_have() -> None:
    found = Found([hit_of("a", "Wear gloves.", 0.3, 0.7), hit_of("b", "Oil.", 0.2, 0.45)], TERMS)
    assert told(found).endswith("Wear gloves.")
    assert told(found, "what is the phone number for hands?") == NOTHING_FOUND


def test_a_note_with_one_word_of_several_is_not_told_however_near_it_is() -> None:
    terms = [*TERMS, Term("feet", '"feet"', is_gram=False, chunks=1, weight=1.0)]
    assert said(Found([hit_of("a", "Wear boots.", 0.38, 0.95)], terms)) == ["Wear boots."]
    assert said(Found([hit_of("a", "Wear boots on your feet.", 0.4, 0.95)], terms)) == []
