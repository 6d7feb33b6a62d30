"""Languages: which one a comment is in, and which of its words say something."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("wordllama", reason="needs the extra: pip install 'penstock[delphi]'")

from penstock.errors import PenstockError
from penstock.systems.delphi.analysis.conversation import tidy
from penstock.systems.delphi.analysis.embeddings import WordLlamaEmbedder, embedder_named, serves
from penstock.systems.delphi.analysis.keywords import Vocabulary
from penstock.systems.delphi.analysis.languages import (
    detect_languages,
    language,
    language_codes,
    simplified,
    topic_words,
)
from penstock.systems.delphi.analysis.libraries import one_thread
from penstock.systems.delphi.analysis.topics import KeywordNamer, Topic, distinct_names

GERMAN = [
    "Die Straßenbahn ist für viele Familien zu teuer und kommt zu selten.",
    "Wir brauchen mehr Straßenbahnen in die Vororte.",
    "Bei der Straßenbahn müssen die Fahrkarten billiger werden.",
    "Und für die Kinder sollten die Spielplätze sauberer werden.",
    "Der Spielplatz am Markt braucht eine neue Rutsche.",
    "Spielplätze müssen auch für kleine Kinder etwas haben.",
]
JAPANESE = [
    "小学校の給食費を無償化してほしいです。",
    "給食の時間が短すぎると思います。",
    "給食にもっと地元の野菜を使ってほしい。",
    "図書館の開館時間を延長すべきだと思います。",
    "図書館に子どもの本を増やしてください。",
    "駅前に図書館を作ってほしい。",
]
ARABIC = [
    "يجب أن نزرع المزيد من الأشجار في المدينة.",
    "الأشجار في الشوارع قليلة جدا.",
    "نحتاج إلى الأشجار حول المدارس.",
    "المكتبة تغلق أبوابها في وقت مبكر.",
    "يجب أن تفتح المكتبة في المساء.",
    "المكتبة بعيدة عن المدارس.",
]


def written(text: str, code: str) -> list[str]:
    return [word.written for run in language(code).runs(text) for word in run]


@pytest.mark.parametrize("code", language_codes())
def test_no_keyword_of_any_language_is_a_function_word(code: str):
    import stopwordsiso

    listed = sorted(stopwordsiso.stopwords(code))
    left = [word for word in listed if written(tidy(word), code) and word not in topic_words(code)]
    assert left == []
    comments = [f"{listed[at]} . zorblax . {listed[-1 - at]} . {listed[at]}" for at in range(min(20, len(listed)))]
    keywords = Vocabulary([tidy(text) for text in comments], [code] * len(comments)).keywords(range(len(comments)))
    assert [keyword.text for keyword in keywords] == ["zorblax"]


@pytest.mark.parametrize(
    ("texts", "code", "first", "second"),
    [
        (GERMAN, "de", "Straßenbahn", "Spielplätze"),
        (JAPANESE, "ja", "給食", "図書館"),
        (ARABIC, "ar", "الأشجار", "المكتبة"),
    ],
)
def test_a_conversation_is_read_in_its_own_language(texts: list[str], code: str, first: str, second: str):
    codes = detect_languages(texts)
    assert set(codes) == {code}
    vocabulary = Vocabulary(texts, codes)
    assert vocabulary.keywords([0, 1, 2])[0].text.startswith(first)
    assert vocabulary.keywords([3, 4, 5])[0].text == second


def test_a_second_language_counts_from_three_certain_comments_on():
    french = [
        "Les pistes cyclables devraient être séparées de la chaussée.",
        "Il faut plus de bancs dans les parcs de la ville.",
        "Le marché du samedi est trop petit pour le quartier.",
    ]
    assert detect_languages([*GERMAN, *french]) == ("de",) * 6 + ("fr",) * 3
    assert set(detect_languages([*GERMAN, french[0]])) == {"de"}


def test_in_a_conversation_of_two_languages_short_comments_are_in_their_own():
    """Read as the other language, their function words would be words of a topic: "Busse, am"."""
    french = [
        "Les pistes cyclables devraient être séparées de la chaussée.",
        "Il faut plus de bancs dans les parcs de la ville.",
        "Le marché du samedi est trop petit pour le quartier.",
        "Il faut plus de bus le week-end",
        "Il faut plus de bus",
    ]
    codes = detect_languages([*GERMAN, *french, "Die Mieten sind zu hoch", "Bus"])
    assert codes == ("de",) * 6 + ("fr",) * 5 + ("de",) * 2


def test_a_given_language_overrides_and_an_unknown_one_is_refused():
    assert detect_languages(GERMAN, "nl") == ("nl",) * 6
    with pytest.raises(PenstockError, match="no language 'xx': give auto, or one of af, ar"):
        detect_languages(GERMAN, "xx")


@pytest.mark.parametrize(
    ("text", "code", "found"),
    [
        ("We should protect the rivers’ banks, and 2 of THEM!", "en", ["protect", "rivers", "banks"]),
        ("我覺得計程車的司機，為什麼", "zh", ["計程車", "司機", "計程"]),
        ("小学校の給食費を無償化してほしい", "ja", ["小学校", "給食費", "無償化"]),
        ("L’eau de la ville, c’est-à-dire l’école d’aujourd’hui", "fr", ["eau", "ville", "école"]),
        ("도서관을 더 늘려주세요", "ko", ["도서관"]),
        ("see https://example.org/the/river or mail me@example.org", "en", ["mail"]),
    ],
)
def test_words_are_those_that_say_something(text: str, code: str, found: list[str]):
    assert written(text, code) == found


def test_forms_of_a_word_have_one_stem_and_both_chinese_scripts_one_word():
    for code, forms in (("en", ("flooding", "floods", "flooded")), ("de", ("Straßenbahn", "Straßenbahnen"))):
        assert len({word.stem for form in forms for run in language(code).runs(form) for word in run}) == 1
    assert simplified("計程車") == "计程车"
    assert language("zh").runs("計程車")[0][0].stem == language("zh").runs("计程车")[0][0].stem


def test_a_long_chinese_word_also_speaks_of_the_word_that_it_begins_with():
    """停车位, 停车场 and 停车费 are all about 停车; 慢性病 (a chronic disease) is not about 性病."""
    assert written("小区停车位", "zh") == ["小区", "停车位", "停车"]
    assert "性病" not in written("开慢性病的药", "zh")


def test_a_chinese_topic_is_named_by_what_its_words_have_in_common():
    parking = ["停车位不够", "停车场收费", "停车费涨价"]
    others = ["公园种树", "学校食堂", "医院排队", "垃圾分类"]
    vocabulary = Vocabulary(parking + others, ("zh",) * 7)
    assert vocabulary.keywords(range(3))[0].text == "停车"
    alike = ["停车场收费", "停车场太远", "停车场关门"]
    vocabulary = Vocabulary(alike + others, ("zh",) * 7)
    assert vocabulary.keywords(range(3))[0].text == "停车场"  # all say the longer word


def test_wordllama_serves_scripts_that_it_reads_in_pieces_that_mean_something():
    assert serves(GERMAN)
    assert serves(["計程車司機應該有職業駕照"])
    assert not serves(ARABIC)
    assert embedder_named("auto").fit(GERMAN, ["de"] * 6, 1).name == "wordllama-256+tfidf"
    assert embedder_named("auto").fit(ARABIC, ["ar"] * 6, 1).name == "tfidf-svd"


def test_a_comment_is_nearer_to_one_that_means_the_same_in_other_words():
    texts = [
        "More bicycle lanes, please.",
        "Cyclists want safe paths.",
        "School lunch is cold.",
        "Pupils dislike the meals.",
    ]
    vectors = embedder_named("wordllama").fit(texts, ["en"] * 4, 1).vectors
    assert vectors[0] @ vectors[1] > max(vectors[0] @ vectors[2], vectors[0] @ vectors[3])
    again = embedder_named("wordllama").fit(texts, ["en"] * 4, 1)
    assert abs(again.place(texts[:1], ["en"])[0] @ vectors[0] - 1) < 1e-5


def test_two_topics_of_a_layer_never_have_one_name():
    keywords = Vocabulary(["bus fare", "bus stop", "bus fare", "bus stop"], ["en"] * 4).keywords([0, 1, 2, 3])
    topics = [Topic(0, cluster, (0,), keywords, (0,), (0.0, 0.0)) for cluster in range(3)]
    names = {topic.key: "Bus" for topic in topics}
    assert len(set(distinct_names(topics, names).values())) == 3


def test_a_topic_without_keywords_is_named_by_a_quotation():
    assert KeywordNamer().name(Topic(0, 0, (0,), (), (0,), (0.0, 0.0)), ["so be it"]) == "“so be it”"


def test_nouns_that_japanese_writes_in_hiragana_are_words_of_a_topic():
    """Of a town's comments on ごみ (rubbish), topics were called by whole comments: no word was left."""
    assert written("海岸のごみを拾う", "ja")[:2] == ["海岸", "ごみ"]
    assert written("こどもの遊び場がほしい", "ja") == ["こども", "遊び場"]
    assert written("子どもの本", "ja") == ["子ども", "本"]
    assert written("そうしてほしいということです", "ja") == [], "what holds a sentence together"
    katakana, hiragana = (language("ja").runs(word)[0][0].stem for word in ("ゴミ", "ごみ"))
    assert katakana == hiragana


def test_what_stands_or_is_lacking_is_no_topic_in_german():
    assert written("Hunde gehören nicht auf den Wochenmarkt, es fehlen Kitaplätze", "de") == [
        "Hunde",
        "Wochenmarkt",
        "Kitaplätze",
    ]


def test_importing_a_library_leaves_logging_as_it_was() -> None:
    code = (
        "import logging\n"
        "from penstock.systems.delphi.analysis.libraries import library\n"
        "library('wordllama')\n"
        "assert (logging.root.handlers, logging.root.level) == ([], logging.WARNING), logging.root.handlers\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_short_comments_of_other_scripts_and_with_function_words_are_read_in_their_languages():
    texts = [
        "Der Radweg an der Hauptstraße endet im Nichts", "Die Kita schließt schon um 15 Uhr", "Das Bad ist zu alt",
        "Windräder zerstören die Landschaft", "Es fehlen Ärzte", "Im Winter räumt niemand den Radweg",
        "地铁太挤了", "垃圾分类的桶太少", "Uber的司機很好", "医院挂号太难了",
        "ゴミの分別が難しい", "保育園に入れない", "ゴミ袋が高すぎる",
        "المدرسة بعيدة عن البيت", "الماء ينقطع كل يوم", "نحتاج إلى مدرسة",
        "Necesitamos una biblioteca para los niños", "El metro llega siempre tarde a la plaza",
        "Hay basura en todas las calles", "La piscina está cerrada",
    ]  # fmt: skip
    found = detect_languages(texts)
    assert found == (*("de",) * 6, *("zh",) * 4, *("ja",) * 3, *("ar",) * 3, *("es",) * 4)


def test_comments_of_several_languages_do_not_lie_together_for_their_language_alone():
    words = {"de": ("Radweg", "Schwimmbad", "Bücherei"), "es": ("carril", "piscina", "biblioteca")}
    forms = {
        "de": ("Der {} ist viel zu klein", "Wir brauchen einen {}", "Das mit dem {} geht so nicht"),
        "es": ("El {} es demasiado pequeño", "Necesitamos un {} aquí", "Lo del {} no puede ser"),
    }
    texts, codes = [], []
    for code, subjects in words.items():
        for subject in subjects * 3:
            texts += [form.format(subject) for form in forms[code]]
            codes += [code] * 3
    with one_thread():
        vectors = WordLlamaEmbedder().fit(texts, codes, 1).vectors
    meanings = vectors[:, :256]
    german, spanish = meanings[:27].mean(axis=0), meanings[27:].mean(axis=0)
    assert float(((german - spanish) ** 2).sum()) < 0.02
