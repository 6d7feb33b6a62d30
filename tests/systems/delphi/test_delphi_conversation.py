"""Reading a Pol.is export (S3.12), and the keywords of comments."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from penstock.systems.delphi.analysis.conversation import (
    BadConversation,
    Skipped,
    parse_conversation,
    read_conversation,
)
from penstock.systems.delphi.analysis.embeddings import pack_vector, unpack_vector
from penstock.systems.delphi.analysis.keywords import Vocabulary

HEADER = "timestamp,comment-id,author-id,agrees,disagrees,moderated,comment-body\n"


def parsed(*rows: str):
    return parse_conversation((HEADER + "".join(f"{row}\n" for row in rows)).encode())


def test_S3_12_blank_moderated_and_repeated_comments_are_left_out_by_name():
    conversation = parsed(
        '1,4,9,1,0,1,"Save the\nriver"',
        "1,2,9,1,0,0,   ",
        "1,7,8,0,5,-1,an insult",
        "1,5,8,0,0,0,save the RIVER.",
        "1,9,7,0,0,0,!!!",
    )
    assert [(comment.id, comment.text) for comment in conversation.comments] == [(4, "Save the river")]
    assert conversation.skipped == (
        Skipped(2, "blank"),
        Skipped(5, "duplicate", same_as=4),
        Skipped(7, "moderated"),
        Skipped(9, "blank"),
    )
    assert conversation.participants == 1


def test_S3_5_a_comment_keeps_its_own_id_whatever_its_row():
    conversation = parsed("1,30,1,0,0,0,three", "1,10,1,0,0,0,one", "1,20,1,0,0,0,", "1,25,1,0,0,0,two and a half")
    assert [comment.id for comment in conversation.comments] == [10, 25, 30]


def test_a_moderated_comment_does_not_make_a_later_one_a_duplicate():
    conversation = parsed("1,1,1,0,0,-1,the same words", "1,2,1,0,0,1,the same words")
    assert [comment.id for comment in conversation.comments] == [2]


def test_a_byte_order_mark_and_any_script_are_read():
    text = "\ufeff" + HEADER + "1,1,1,0,0,0,計程車 façade 🚲 e\u0301te\u0301\n"
    assert parse_conversation(text.encode()).comments[0].text == "計程車 façade 🚲 été"


def test_an_export_that_a_german_spreadsheet_saved_again_is_read():
    data = "\ufeffcomment-id;author-id;comment-body\r\n1;7;Mehr Bäume, weniger Autos\r\n".encode()
    (comment,) = parse_conversation(data).comments
    assert (comment.id, comment.author, comment.text) == (1, "7", "Mehr Bäume, weniger Autos")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "no column comment-id and no column comment-body. Its columns: none"),
        (b"id,mood\n1,hello\n", "Its columns: id, mood"),
        (HEADER.encode() + b"1,x7,1,0,0,0,hello\n", "line 2: comment-id is 'x7'"),
        (HEADER.encode() + b"1,7,1,0,0,hello\n", "line 2: 6 fields where the header has 7"),
        (HEADER.encode() + b"1,7,1,0,0,0,a\n1,7,1,0,0,0,b\n", "the comment-id 7 twice"),
        (HEADER.encode() + b"1,7,1,0,0,0,\xff\n", "is not UTF-8"),
        (HEADER.encode() + b'1,7,1,0,0,0,"open\n', "line 2: unexpected end of data"),
    ],
)
def test_S3_12_a_file_that_is_no_export_is_refused_with_its_line_and_what_to_do(data: bytes, told: str):
    with pytest.raises(BadConversation) as refused:
        parse_conversation(data)
    assert told in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(BadConversation, match=r"none\.csv: No such file"):
        read_conversation(tmp_path / "none.csv")


def test_our_own_conversation_has_one_of_everything():
    sample = files("penstock.systems.delphi").joinpath("sample", "comments.csv").read_bytes()
    conversation = parse_conversation(sample)
    assert len(conversation.comments) == 87
    assert {reason: conversation.count_skipped(reason) for reason in ("blank", "moderated", "duplicate")} == {
        "blank": 1,
        "moderated": 2,
        "duplicate": 1,
    }


# ── keywords ────────────────────────────────────────────────────────────────────────────────────────


def test_keywords_are_what_a_group_says_more_than_the_others():
    texts = [
        "free school lunch",
        "a warm school lunch",
        "school lunch for all",
        "the river floods",
        "river banks",
        "a river",
    ]
    vocabulary = Vocabulary(texts, ["en"] * len(texts))
    assert vocabulary.keywords([0, 1, 2])[0].text == "school lunch"
    assert vocabulary.keywords([3, 4, 5])[0].text == "river"
    assert vocabulary.coverage(0, vocabulary.keywords([0, 1, 2])) > vocabulary.coverage(
        3, vocabulary.keywords([0, 1, 2])
    )


def test_a_keyword_of_an_unspaced_script_is_a_whole_word():
    texts = ["計程車司機", "計程車太貴", "搭計程車回家", "河流氾濫", "河流很美", "河流"]
    assert Vocabulary(texts, ["zh"] * len(texts)).keywords([0, 1, 2])[0].text == "計程車"


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────


def test_S3_5_a_vector_is_packed_with_its_dimension():
    data = pack_vector([0.5, -1.0, 0.25])
    assert len(data) == 12
    assert unpack_vector(data, 3) == (0.5, -1.0, 0.25)
    with pytest.raises(ValueError, match="no vector of 4 dimensions"):
        unpack_vector(data, 4)


@pytest.mark.parametrize("component", [float("nan"), float("inf")])
def test_a_vector_that_is_no_vector_is_refused(component: float):
    with pytest.raises(ValueError, match="NaN or infinite"):
        pack_vector([0.0, component])


def test_S3_12_keywords_do_not_depend_on_the_order_of_sets_which_is_another_in_every_process():
    code = (
        "from penstock.systems.delphi.analysis.keywords import Vocabulary\n"
        "texts = ['計程車司機應考職業駕照', '職業駕照太貴', '考職業駕照', '河流氾濫', 'school lunch menu']\n"
        "print([keyword for keyword in Vocabulary(texts, ['zh'] * 5).keywords([0, 1, 2])])\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_file_of_ones_own_is_read_as_a_spreadsheet_saves_it(encoding: str):
    data = "Id;Beitrag;Ort\r\n7;Mehr Bäume;Köln\r\n3;Weniger Autos;Bonn\r\n".encode(encoding)
    found = parse_conversation(data)
    assert [(one.id, one.text) for one in found.comments] == [(3, "Weniger Autos"), (7, "Mehr Bäume")]


def test_a_broken_export_is_not_taken_for_another_encoding():
    data = "comment-id,comment-body\n1,Bäume\n2,B".encode() + b"\xe4ume\n"
    with pytest.raises(BadConversation, match="is not UTF-8"):
        parse_conversation(data)
    with pytest.raises(BadConversation, match=r"no column comment-body.*\(or text\)"):
        parse_conversation(b"id,text,comment\n1,a,b\n")
