"""The document beside a drawing, from its bytes to what it asks for.

word.py          a Word document as Markdown text: headings, lists and tables stay what they are
document.py      any document as text, and a text as blocks
requirements.py  facts and requirements of the blocks
"""
