"""Votes, outliers, the report and the search, on an export that the test makes: a town that argues in German."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("wordllama", reason="needs the extra: pip install 'penstock[delphi]'")

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.systems.delphi.analysis import map_picture
from penstock.systems.delphi.analysis.clusters import ALONE, OUTLIER, WORDLESS, cluster_vectors
from penstock.systems.delphi.analysis.conversation import BadConversation
from penstock.systems.delphi.analysis.keywords import Vocabulary
from penstock.systems.delphi.analysis.libraries import one_thread
from penstock.systems.delphi.analysis.topics import KeywordNamer, Topic
from penstock.systems.delphi.analysis.votes import parse_summary, parse_votes, path_beside, sum_up
from penstock.systems.delphi.report import report_of
from penstock.systems.delphi.results import Results

COMMENTS = [
    "Die Straßenbahn soll auch nachts fahren.",
    "Die Straßenbahn ist zu teuer.",
    "Mehr Straßenbahnen in die Vororte bitte.",
    "Fahrkarten der Straßenbahn für Schüler kostenlos.",
    "Der Spielplatz am Markt braucht eine Rutsche.",
    "Spielplätze müssen sauberer werden.",
    "Ein Spielplatz mit Schatten wäre gut.",
    "Kinder wünschen sich einen Spielplatz mit Wasser.",
    "Das Freibad soll im Mai öffnen. <script>alert(1)</script>",
    "Das Freibad braucht längere Öffnungszeiten.",
    "Eintritt ins Freibad ist zu teuer.",
    "Im Freibad fehlen Umkleiden.",
]


def run(*arguments: str) -> Result:
    clean = {"DELPHI_JOB_ID": None, "DELPHI_REPORT_ID": None, "PENSTOCK_DB": None, "PENSTOCK_FILES": None}
    return CliRunner().invoke(cli, [*arguments], env=clean)


def vote(person: int, comment: int) -> str:
    """Everybody agrees on comment 0; people of two camps disagree on the trams; person 0 votes on two only."""
    if person == 0 and comment > 1:
        return ""
    if comment == 0:
        return "1"
    if comment < 4:
        return "1" if person % 2 else "-1"
    return "0" if comment > 9 else "1" if person % 4 or comment != 7 else "-1"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "kleinstadt"
    folder.mkdir()
    with (folder / "comments.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ["comment-id", "author-id", "moderated", "comment-body"],
                *([10 + 3 * n, 1, 1, text] for n, text in enumerate(COMMENTS)),
            ]
        )
    ids = [10 + 3 * n for n in range(len(COMMENTS))]
    with (folder / "participants-votes.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["participant", "group-id", *ids], *([p, "", *(vote(p, n) for n in range(len(ids)))] for p in range(21))]
        )
    (folder / "summary.csv").write_text('topic,Unsere Kleinstadt\nvoters,21\nconversation-description,"zwei\nZeilen"\n')
    return folder


@pytest.fixture(scope="module")
def database(export: Path) -> str:
    url = str(export.parent / "d.db")
    ended = run("delphi", "run", str(export), "--db", url, "--job-id", "stadt")
    assert ended.exit_code == 0, ended.output
    assert "language de; 21 participants, opinion groups of 10, 10" in ended.output
    assert "Every comment is in a topic." in ended.output
    return url


def test_votes_are_counted_and_opinion_groups_are_found(export: Path):
    ids = [10 + 3 * n for n in range(len(COMMENTS))]
    votes = parse_votes((export / "participants-votes.csv").read_bytes(), ids)
    with one_thread():
        opinions = sum_up(votes, {}, 1)
    assert (opinions.participants, opinions.groups) == (21, (10, 10))
    assert len(opinions.people) == 20  # one voted on too little to be in a group
    first, second = opinions.comments[:2]
    assert (first.agrees, first.disagrees, first.consensus, first.division) == (21, 0, "agree", 0.0)
    assert second.consensus == ""
    assert sorted(second.group_agreement) == [0.0, 1.0]
    assert second.division == pytest.approx(20 / 21, abs=1e-4)


def test_a_comment_that_no_column_has_has_no_votes_and_odd_cells_are_none():
    votes = parse_votes(b"participant,1\n7,1\n8,yes\n9\n", [1, 2])
    assert votes.participants == ("7", "8", "9")
    with one_thread():
        opinions = sum_up(votes, {}, 1)
    assert [one.voters for one in opinions.comments] == [1, 0]
    assert opinions.groups == ()
    with pytest.raises(BadConversation, match="no column participant"):
        parse_votes(b"a,b\n1,2\n", [1])
    assert parse_summary(b'topic,"a\nb"\nsecret,x\n') == {"topic": "a b"}


def test_a_file_of_another_name_does_not_take_the_votes_beside_it(export: Path):
    assert path_beside(export / "comments.csv", "summary.csv") == export / "summary.csv"
    assert path_beside(export / "other.csv", "summary.csv") is None


def test_no_comment_is_told_as_consensus_and_as_divided(tmp_path: Path):
    """Four of six agreed: the report had the comment in both of its lists."""
    rows = ["comment-id,author-id,agrees,disagrees,moderated,comment-body"]
    rows += [f"{at},1,{4 - at % 2},{2 + at % 2},1,{text}" for at, text in enumerate(COMMENTS)]
    (tmp_path / "comments.csv").write_text("\n".join(rows))
    url = str(tmp_path / "d.db")
    assert run("delphi", "run", str(tmp_path), "--db", url, "--job-id", "six").exit_code == 0
    with connect(url) as db:
        found = report_of(Results(db), "six")
    assert found["consensus"]
    assert found["divisive"]
    for lists in (found, *found["topics"]):
        assert not set(lists["consensus"]) & set(lists["divisive"])


def test_tables_have_votes_languages_and_topics(database: str):
    topics = json.loads(run("delphi", "topics", "--job-id", "stadt", "--db", database, "--json").stdout)
    trams = next(topic for topic in topics if "Straßenbahn" in topic["name"])
    assert 10 in trams["votes"]["consensus_comments"]
    assert set(trams["votes"]["divisive_comments"]) >= {13, 16, 19}


def test_the_report_is_one_page_that_loads_nothing_and_shows_comments_as_text(database: str, tmp_path: Path):
    page = tmp_path / "stadt.html"
    ended = run("delphi", "report", "stadt", "--html", "--out", str(page), "--db", database)
    assert ended.exit_code == 0, ended.output
    text = page.read_text("utf-8")
    assert "<title>Unsere Kleinstadt</title>" in text
    assert not re.search(r"(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    assert "<script>alert" not in text
    [data] = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    shown = json.loads(data)
    assert {one["text"] for one in shown["comments"]} == set(COMMENTS)
    assert shown["consensus"][0] == 10
    assert set(shown["divisive"]) >= {13, 16, 19}
    told = run("delphi", "report", "stadt", "--db", database)
    assert "100% of 21 agree  Die Straßenbahn soll auch nachts fahren." in told.output
    missing = run("delphi", "report", "nowhere", "--html", "--db", database)
    assert missing.exit_code == 4


def test_similar_comments_are_found_by_an_exact_search(database: str):
    ended = run(
        "delphi", "similar", "stadt", "Die Straßenbahn ist zu teuer!", "--db", database, "--json", "--limit", "3"
    )
    found = json.loads(ended.stdout)
    assert [found[0]["comment_id"], len(found)] == [13, 3]
    assert found[0]["similarity"] == pytest.approx(1, abs=0.05)
    nothing = run("delphi", "similar", "stadt", "?!", "--db", database)
    assert nothing.exit_code == 1
    assert "has no word" in nothing.output


def test_similar_says_the_same_with_and_without_the_vector_index(database: str, monkeypatch: pytest.MonkeyPatch):
    searched: list[str] = []
    nearest = Results.nearest

    def counted(self: Results, *given: Any) -> Any:
        searched.append("by the index")
        return nearest(self, *given)

    monkeypatch.setattr(Results, "nearest", counted)
    words = ("delphi", "similar", "stadt", "Spielplatz mit Wasser", "--db", database, "--json", "--limit", "6")
    by_index = json.loads(run(*words).stdout)
    assert searched == ["by the index"]
    monkeypatch.setattr(Results, "has_vector_index", lambda self: False)
    compared = json.loads(run(*words).stdout)
    assert searched == ["by the index"]
    assert [one["comment_id"] for one in by_index] == [one["comment_id"] for one in compared]
    for one, other in zip(by_index, compared, strict=True):
        assert one["similarity"] == pytest.approx(other["similarity"], abs=2e-6)


def test_at_most_five_in_a_hundred_comments_are_in_no_topic_each_with_its_reason():
    numpy = pytest.importorskip("numpy")
    chance = numpy.random.RandomState(3)
    middles = chance.normal(size=(6, 40))
    rows = numpy.vstack([middle + chance.normal(scale=0.3, size=(15, 40)) for middle in middles])
    alone = chance.normal(size=(10, 40))
    vectors = numpy.vstack([rows, alone])
    vectors = (vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)).astype(numpy.float32)
    with one_thread():
        layers = cluster_vectors(vectors, 1)
    finest = layers.labels[0]
    assert finest.count(OUTLIER) == 5
    assert all(label == OUTLIER for label, reason in zip(finest, layers.reasons, strict=True) if reason)
    assert layers.outliers() == {ALONE: 5}
    assert all(row >= 90 for row, label in enumerate(finest) if label == OUTLIER)
    with one_thread():
        silent = cluster_vectors(vectors, 1, wordless=frozenset((4, 40)))
    assert (silent.reasons[4], silent.reasons[40]) == (WORDLESS, WORDLESS)
    assert silent.outliers() == {ALONE: 3, WORDLESS: 2}
    for group in range(6):
        assert len(set(finest[group * 15 : group * 15 + 15])) == 1


def test_coarse_layers_are_the_subjects_that_fine_topics_belong_to():
    import numpy
    from sklearn.metrics import adjusted_mutual_info_score

    random = numpy.random.RandomState(0)
    rows, subjects = [], []
    for subject in range(5):
        middle = random.normal(size=60) * 0.9
        for _ in range(8):
            topic = middle + random.normal(size=60)
            rows += [topic + random.normal(size=60) for _ in range(10)]
            subjects += [subject] * 10
    vectors = numpy.array(rows, dtype=numpy.float32)
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    with one_thread():
        layers = cluster_vectors(vectors, 1)
    assert adjusted_mutual_info_score(subjects, layers.labels[-1]) > 0.85


def test_german_topics_are_called_by_their_nouns():
    texts = [
        "Plastik gehört verboten, und Plastik ist giftig",
        "Man sollte Plastik verbieten, das ist verboten gut",
        "Wer Plastik wegwirft: verboten!",
        "Es wird viel verboten, aber kein Plastik",
        "Auch hier wird alles verboten",
        "Der Bahnhof ist dunkel",
        "Am Bahnhof zieht es",
        "Ein Bahnhof ohne Uhr",
    ]
    keywords = Vocabulary(texts, ["de"] * len(texts)).keywords([0, 1, 2, 3, 4])
    assert [keyword.text for keyword in keywords][:2] == ["verboten", "Plastik"]
    assert KeywordNamer().name(Topic(0, 0, (0, 1, 2, 3, 4), keywords, (0,), (0.0, 0.0)), []) == "Plastik, verboten"


@pytest.mark.parametrize("width", [1440, 390])
def test_the_reports_map_is_readable_on_a_telephone_and_zooms_by_two_fingers(database: str, tmp_path: Path, width: int):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no chromium on this machine: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    assert (
        run("delphi", "report", "stadt", "--html", "--out", str(tmp_path / "s.html"), "--db", database).exit_code == 0
    )
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": width, "height": 844}, has_touch=width < 600)
        page.set_default_timeout(60_000)
        page.goto(f"file://{tmp_path / 's.html'}")
        name = page.locator("#map text").first
        assert name.evaluate("node => node.getBoundingClientRect().height") >= 11
        assert page.evaluate("document.documentElement.scrollWidth") == width
        [box] = page.evaluate("[document.querySelector('#map svg').getBoundingClientRect()]")
        assert box["height"] <= 1.1 * width
        before = page.evaluate("view.k")
        page.evaluate(TWO_FINGERS)
        assert page.evaluate("view.k") > 1.5 * before
        page.locator("#farther").click()
        page.locator("#reset").click()
        page.locator("#map circle").first.dispatch_event("pointerenter", {"pointerType": "touch"})
        page.locator("#map circle").first.dispatch_event("pointerleave", {"pointerType": "touch"})
        assert page.locator("#tip").inner_text().splitlines()[0] in COMMENTS
        page.locator("#nearer").click()
        assert not page.locator("#tip").is_visible()
        browser.close()


TWO_FINGERS = """() => {
  const svg = document.querySelector('#map svg'), box = svg.getBoundingClientRect();
  svg.setPointerCapture = () => {};  // only real fingers can be captured
  const touch = (kind, id, x) => svg.dispatchEvent(new PointerEvent(kind, {pointerId: id, pointerType: 'touch',
    clientX: box.left + x, clientY: box.top + 100, bubbles: true}));
  touch('pointerdown', 1, 100); touch('pointerdown', 2, 140);
  touch('pointermove', 2, 200); touch('pointerup', 1, 100); touch('pointerup', 2, 200);
}"""


def test_letters_that_the_pictures_font_has_not_are_drawn_in_a_font_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    """A map of a Chinese conversation had boxes for names, whatever fonts there were."""
    from matplotlib import font_manager, get_data_path
    from matplotlib.ft2font import FT2Font

    other = str(Path(get_data_path()) / "fonts/ttf/STIXNonUni.ttf")
    broken = Path(get_data_path()) / "matplotlibrc"
    own = FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap()
    letter = chr(min(set(FT2Font(other).get_charmap()) - set(own)))
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(broken), other])
    assert map_picture._families("Uber") == ["DejaVu Sans"]
    assert map_picture._families(f"Uber {letter}") == ["DejaVu Sans", FT2Font(other).family_name]
