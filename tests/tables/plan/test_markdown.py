"""A plan as the comment of a pull request: marker, details, and names that are not trusted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tables.definitions.definition import Index, Naming, Table
from penstock.tables.plan.markdown import MOST_CHARACTERS, marker_of, plan_markdown
from penstock.tables.plan.orphans import Orphan, Orphans
from penstock.tables.plan.plan import plan_table
from penstock.tables.plan.survey import Survey, TableSurvey

PLAIN = Table("jobs", "id:S")


def survey_of(*pairs: tuple[str, Table | None, Table], note: str = "") -> Survey:
    tables = [TableSurvey(name, wanted, None, plan_table(name, live, wanted, 7), note) for name, live, wanted in pairs]
    return Survey(tuple(tables), Naming("app", "dev"))


def test_it_has_a_marker_details_and_warnings() -> None:
    streamed = PLAIN.replace(stream="NEW_IMAGE")
    survey = survey_of(("app-dev-logs", None, PLAIN), ("app-dev-jobs", streamed, PLAIN), ("same", PLAIN, PLAIN))
    text = plan_markdown(survey, "mine:all", "aws://eu-west-2", Orphans((Orphan("app-dev-old", ""),)))
    lines = text.splitlines()
    assert lines[0] == "<!-- penstock-plan: mine:all app dev -->"
    assert lines[1] == ("### Tables: 1 to create, 1 to change. :warning: 1 table with changes that destroy something.")
    assert "<details open><summary><code>app-dev-jobs</code>: 1 change :warning: 1 destroying" in text
    assert (
        "<details><summary><code>app-dev-logs</code>: create</summary>\n\n```text\n  + app-dev-logs   key id (S)\n"
        in text
    )
    assert text.index("app-dev-jobs") < text.index("app-dev-logs"), "what destroys something comes first"
    assert "same" not in text
    assert "- <code>Orphans, which have our tags and no definition, and are left alone: app-dev-old.</code>" in text
    assert text.count("<details") == text.count("</details>") == 2


def test_the_marker_is_the_same_for_the_next_plan_and_another_elsewhere() -> None:
    before, after = survey_of(("a", None, PLAIN)), survey_of(("a", PLAIN, PLAIN))
    assert marker_of(before, "mine:all") == marker_of(after, "mine:all")
    assert marker_of(Survey((), Naming("app", "production")), "mine:all") != marker_of(before, "mine:all")
    assert marker_of(before, "a-->b--c") == "<!-- penstock-plan: a-b-c app dev -->"


HOSTILE = ["```\n</details><script>alert(1)</script>", "@everyone", "a|b", "# title", "````", "\u202e\x1b[31m", "<!--"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_a_name(name: str) -> None:
    wanted = PLAIN.replace(ttl=name, tags={"k": name}, indexes=(Index("x", f"{name}:S"),))
    survey = survey_of(("app-dev-jobs", None, wanted), note=f"note {name}")
    check(plan_markdown(survey, name, name))


def test_quotes_stay_quotes() -> None:
    survey = survey_of(("app-dev-jobs", None, PLAIN), note='the index\'s "key" & more')
    assert 'the index\'s "key" &amp; more' in plan_markdown(survey, "a'b", "c")
    assert "<code>a'b</code>" in plan_markdown(survey, "a'b", "c")


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_gets_out_of_its_place(name: str, note: str) -> None:
    survey = survey_of(("app-dev-jobs", None, PLAIN.replace(ttl=name or "t")), note=note)
    check(plan_markdown(survey, name, note))


def check(text: str) -> None:
    """Outside of the fences, only our own HTML; every fence is closed by its like."""
    outside, fence = [], ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif found := re.fullmatch("(`{3,})text", line):
            fence = found[1]
        else:
            outside.append(line)
    assert not fence
    told = "\n".join(outside[1:])
    assert set(re.findall(r"</?[a-z]+", told)) <= {"<details", "</details", "<summary", "</summary", "<code", "</code"}
    assert "@" not in told and "`" not in told and "<!--" not in told
    assert re.fullmatch(r"<!-- penstock-plan: [^<>]* -->", outside[0]) and "--" not in outside[0][4:-3]
    assert not re.search("[\x00-\x09\x0b-\x1f\u2028\u202e]", text)


def test_a_comment_fits_into_a_comment() -> None:
    many = [(f"app-dev-table-{number}", None, PLAIN) for number in range(2_500)]
    text = plan_markdown(survey_of(*many), "mine:all", "aws://eu-west-2")
    assert len(text) < MOST_CHARACTERS + 200
    assert re.search(r"… and [\d,]+ tables more", text)


def test_nothing_to_do_is_short() -> None:
    text = plan_markdown(survey_of(("a", PLAIN, PLAIN)), "mine:all", "x.db", Orphans())
    assert "### Tables: Nothing to do: 1 table as defined." in text and "<details" not in text
