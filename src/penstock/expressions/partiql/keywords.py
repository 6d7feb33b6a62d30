"""PartiQL's words: SQL-92's keywords and its own. An attribute of such a name must be "quoted"."""

from __future__ import annotations

KEYWORDS = frozenset(
    """
    absolute action add all allocate alter and any are as asc assertion at authorization avg bag begin between
    bigint bit bit_length blob bool boolean by can_cast can_lossless_cast cascade cascaded case cast catalog
    char char_length character character_length check clob close coalesce collate collation column commit connect
    connection constraint constraints continue convert corresponding count create cross current current_date
    current_time current_timestamp current_user cursor date date_add date_diff deallocate dec decimal declare
    default deferrable deferred delete desc describe descriptor diagnostics disconnect distinct domain double drop
    else end escape except exception exec execute exists external extract false fetch first float for
    foreign found from full get global go goto grant group having identity immediate in index indicator initially
    inner input insensitive insert int int2 int4 int8 integer integer2 integer4 integer8 intersect interval into is
    isolation join key language last left let level like limit list local lower match max min missing
    modified module names national natural nchar new next no not null nullif numeric octet_length of offset old on
    only open option or order outer output overlaps pad partial pivot position precision prepare preserve primary
    prior privileges procedure public read real references relative remove restrict returning revoke right rollback
    rows schema scroll section select session session_user set sexp size smallint some space sql sqlcode sqlerror
    sqlstate string struct substring sum symbol system_user table temporary then time timestamp to
    transaction translate translation trim true tuple union unique unknown unpivot update upper usage user using
    value values varchar varying view when whenever where with work write zone
    """.split()  # noqa: SIM905 - a text of words reads better than a list of strings
)

CALLABLE = frozenset(
    """
    exists char_length character_length octet_length bit_length lower upper size coalesce nullif substring trim
    extract date_add date_diff cast can_cast can_lossless_cast count avg max min sum position convert
    """.split()  # noqa: SIM905
)
"""Keywords that are functions before a bracket."""

TYPES = frozenset(
    """
    missing null boolean bool smallint integer2 int2 integer int integer4 int4 integer8 int8 bigint float real
    decimal dec numeric timestamp date time character char varchar string symbol clob blob struct tuple list sexp bag
    """.split()  # noqa: SIM905
)
"""Types of one word."""
