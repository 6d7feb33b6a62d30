"""Small files that would be large work: refused with what is wrong, before the work is done."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
import zlib
from contextlib import suppress

import pytest

from penstock.systems.delphi.analysis.conversation import BadConversation, parse_conversation
from penstock.systems.security_assistant.context_document.document import document_text
from penstock.systems.security_assistant.drawing import pdf as drawing_pdf
from penstock.systems.security_assistant.drawing.context import BadContext
from penstock.systems.security_assistant.drawing.pdf import BadDrawing, DrawingTooLarge, check_drawing, read_drawing

WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(xml: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", xml)
    return packed.getvalue()


def pdf(*objects: bytes) -> bytes:
    """A PDF of these objects, the first of which is its catalog."""
    out, offsets = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + one + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + end


def packed(content: bytes, members: bytes = b"") -> bytes:
    data = zlib.compress(content, 9)
    return b"<< /Length %d /Filter /FlateDecode %s >>\nstream\n" % (len(data), members) + data + b"\nendstream"


CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
ONE_PAGE = b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>"
WITH_FONT = b"/Resources << /Font << /F 5 0 R >> >>"
FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def page(more: bytes = b"") -> bytes:
    return b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R " + more + b" >>"


def pages_of_one_content(pages: int, content: bytes) -> bytes:
    kids = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, b"3 0 R " * pages)
    return pdf(CATALOG, kids, page(), packed(content))


def forms_in_forms(times: int) -> bytes:
    """A page that draws a form `times` times, which draws another as often, which has the text."""
    inner = b"/Resources << /Font << /F 7 0 R >> /XObject << /Inner 6 0 R >> >>"
    outer = b"/Resources << /XObject << /Outer 5 0 R >> /Font << /F 7 0 R >> >>"
    form = b"/Type /XObject /Subtype /Form /BBox [0 0 1 1] " + inner
    text = b"BT /F 1 Tf (a) Tj ET " * 20
    return pdf(
        CATALOG,
        ONE_PAGE,
        page(outer),
        packed(b"/Outer Do " * times),
        packed(b"/Inner Do " * times, form),
        packed(text, form),
        FONT,
    )


@pytest.fixture
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bombs for a test: a hundredth of what is allowed."""
    monkeypatch.setattr(drawing_pdf, "BASE_BYTES", drawing_pdf.BASE_BYTES // 100)
    monkeypatch.setattr(drawing_pdf, "BYTES_PER_BYTE", 1)


def test_pages_that_share_one_content_count_it_each_time(little_effort: None) -> None:
    content = b"0 0 m " * 1_000
    assert len(read_drawing(pages_of_one_content(2, content)).pages) == 2
    with pytest.raises(DrawingTooLarge, match="unpacks to more than"):
        read_drawing(pages_of_one_content(40, content))


def test_forms_in_forms_are_counted_each_time_they_are_drawn(little_effort: None) -> None:
    assert len(read_drawing(forms_in_forms(3)).pages) == 1
    with pytest.raises(DrawingTooLarge, match="unpacks to more than"):
        read_drawing(forms_in_forms(60))


@pytest.mark.parametrize(
    "bomb",
    [
        pdf(CATALOG, ONE_PAGE, page(WITH_FONT), packed(b"[" * 20_000), FONT),
        pdf(CATALOG, ONE_PAGE, page(WITH_FONT), packed(b"<<" * 20_000), FONT),
        pdf(CATALOG, ONE_PAGE, page(WITH_FONT), packed(b"(" * 100_000), FONT),
        pdf(CATALOG, ONE_PAGE, page(WITH_FONT), packed(b"BI " * 5_000), FONT),
        pdf(CATALOG, b"<< /Type /Pages /Count 1 /Kids [2 0 R] >>"),
        pdf(CATALOG, *(b"<< /Type /Pages /Kids [%d 0 R %d 0 R] >>" % (n, n) for n in range(3, 14)), page()),
    ],
    ids=["brackets", "dictionaries", "texts", "pictures", "a page tree that is its own child", "two of two of two …"],
)
def test_a_pdf_that_is_nested_without_end_is_refused(bomb: bytes) -> None:
    with pytest.raises(BadDrawing):
        check_drawing(bomb)
        read_drawing(bomb)


def test_a_context_of_paragraphs_in_paragraphs_is_refused() -> None:
    deep = f"<w:document {WORDS}>" + "<w:p>" * 50_000 + "</w:p>" * 50_000 + "</w:document>"
    with pytest.raises(BadContext, match="nested deeper"):
        document_text("a.docx", docx(deep))


def test_a_context_keeps_its_texts_and_no_tree_of_its_elements() -> None:
    def cost(count: int) -> int:
        data = docx(f"<w:document {WORDS}><w:p>" + "<w:b/>" * count + "<w:t>one</w:t></w:p></w:document>")
        tracemalloc.start()
        try:
            assert document_text("a.docx", data).strip() == "one"
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    cost(10)
    # The unpacked bytes are six for an element, and are there two or three times; a tree has about a hundred.
    assert cost(30_000) - cost(10_000) < 30 * 20_000


def test_a_context_that_unpacks_to_very_much_is_refused() -> None:
    with pytest.raises(DrawingTooLarge, match="when it is unpacked"):
        document_text("a.docx", docx(f"<w:document {WORDS}>{' ' * 21_000_000}</w:document>"))


def test_texts_of_a_context_belong_to_the_innermost_paragraph() -> None:
    nested = f"<w:document {WORDS}><w:p><w:t>a</w:t><w:p><w:t>b</w:t><w:t>c</w:t></w:p> <w:t>d</w:t></w:p></w:document>"
    assert document_text("a.docx", docx(nested)).split() == ["bc", "ad"]


@pytest.mark.parametrize("identity", ["9" * 5_000, "9" * 100_000, "٣", "-1", "1e3", ""])
def test_an_id_that_is_no_number_of_ours_is_named_however_long_it_is(identity: str) -> None:
    with pytest.raises(BadConversation, match="comment-id is"):
        parse_conversation(f"comment-id,comment-body\n{identity},text\n".encode())


@pytest.mark.parametrize(
    "text",
    ["comment-id,comment-body\n1,\x00\n", 'comment-id,comment-body\n1,"' + "x" * 200_000, "," * 100_000, '"' * 100_001],
    ids=["NUL", "a field without end", "a hundred thousand columns", "quotes"],
)
def test_an_odd_table_is_read_or_refused_by_name(text: str) -> None:
    try:
        parse_conversation(text.encode())
    except BadConversation as error:
        assert "comments.csv" in str(error)


@pytest.mark.parametrize("place", range(0, 300, 7))
def test_a_context_that_was_cut_or_changed_anywhere_is_read_or_refused(place: int) -> None:
    whole = docx(f"<w:document {WORDS}><w:p><w:t>one</w:t></w:p></w:document>")
    for data in (whole[:place], whole[:place] + whole[place + 1 :], whole[:place] + b"\xff" + whole[place + 1 :]):
        with suppress(BadDrawing):
            document_text("a.docx", data)
