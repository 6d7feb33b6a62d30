"""SELECT … FROM "table"."index"."""

from __future__ import annotations

import pytest
from partiql_tables import table

INVALID = "One or more parameter values were invalid: "


def index(name, hash_name, sort=None, projection="ALL", include=()):
    schema = [{"AttributeName": hash_name, "KeyType": "HASH"}]
    if sort:
        schema.append({"AttributeName": sort, "KeyType": "RANGE"})
    shown = {"ProjectionType": projection, **({"NonKeyAttributes": list(include)} if include else {})}
    return {"IndexName": name, "KeySchema": schema, "Projection": shown}


@pytest.fixture
def idx(sql):
    request = table("idx", sort="S")
    request["AttributeDefinitions"] += [
        {"AttributeName": name, "AttributeType": "S"} for name in ("g", "g2", "l", "l2", "h1", "h2")
    ]
    multi = index("multi", "h1")
    multi["KeySchema"].insert(1, {"AttributeName": "h2", "KeyType": "HASH"})
    request["GlobalSecondaryIndexes"] = [
        index("gsi-all", "g"),
        index("gsi-inc", "g2", projection="INCLUDE", include=["shown"]),
        multi,
    ]
    request["LocalSecondaryIndexes"] = [index("lsi-all", "pk", "l"), index("lsi-keys", "pk", "l2", "KEYS_ONLY")]
    sql.db.execute("CreateTable", request)
    for sk, g in (("1", "x"), ("2", "y"), ("4", "x")):
        texts = {"pk": "p", "sk": sk, "g": g, "g2": g, "l": f"l{sk}", "l2": f"m{sk}", "shown": "P", "hidden": "N"}
        sql.put("idx", **{name: {"S": text} for name, text in texts.items()})
    sql.put("idx", pk={"S": "p"}, sk={"S": "3"})
    return sql


def sort_keys(items):
    return [item["sk"]["S"] for item in items]


def test_an_index_gives_its_own_items(idx):
    assert sort_keys(idx.items('SELECT * FROM "idx"."gsi-all" WHERE g = \'x\'')) == ["1", "4"]
    assert sorted(sort_keys(idx.items('SELECT * FROM idx."gsi-all"'))) == ["1", "2", "4"]
    assert sorted(sort_keys(idx.items("SELECT * FROM idx.\"gsi-all\" WHERE pk = 'p'"))) == ["1", "2", "4"]
    assert sort_keys(idx.items("SELECT * FROM idx.\"lsi-all\" WHERE pk = 'p' AND l > 'l1'", ConsistentRead=True)) == [
        "2",
        "4",
    ]
    assert sort_keys(idx.items("SELECT * FROM idx.\"lsi-all\" WHERE pk = 'p' ORDER BY l DESC")) == ["4", "2", "1"]


def test_an_index_shows_what_it_holds(idx):
    (item, _) = idx.items("SELECT * FROM idx.\"gsi-inc\" WHERE g2 = 'x'")
    assert sorted(item) == ["g2", "pk", "shown", "sk"]
    assert idx.items("SELECT * FROM idx.\"gsi-inc\" WHERE hidden = 'N'") == []


def test_a_local_index_reaches_the_item(idx):
    answer = idx.run(
        "SELECT hidden FROM idx.\"lsi-keys\" WHERE pk = 'p' AND l2 = 'm1'", ReturnConsumedCapacity="INDEXES"
    )
    assert answer["Items"] == [{"hidden": {"S": "N"}}]
    consumed = answer["ConsumedCapacity"]
    assert consumed["Table"] == {"CapacityUnits": 0.5}
    assert consumed["LocalSecondaryIndexes"] == {"lsi-keys": {"CapacityUnits": 0.5}}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "SELECT hidden, other FROM idx.\"gsi-inc\" WHERE g2 = 'x'",
            f"{INVALID}Global secondary index gsi-inc does not project [hidden, other]",
        ),
        (
            'SELECT hidden FROM idx."gsi-inc"',
            f"{INVALID}Global secondary index gsi-inc does not project [hidden]",
        ),
        *(
            (
                f"SELECT pk FROM idx.\"gsi-inc\" WHERE g2 = 'x' AND {condition}",
                f"{INVALID}Secondary index gsi-inc does not project one or more filter attributes: [{names}]",
            )
            for condition, names in (
                ("hidden = 'N'", "hidden"),
                ("NOT (hidden = 'N' OR shown = 'x')", "hidden"),
                ("b = '1' AND (a = '2' OR shown = '3')", "a, b"),
                ("(zz = '1' OR aa = '2' OR mm = '3')", "zz, aa, mm"),
                ("hidden IS MISSING", "hidden"),
            )
        ),
        (
            "SELECT pk FROM idx.\"lsi-keys\" WHERE pk = 'p' AND hidden = 'N'",
            f"{INVALID}Secondary index lsi-keys does not project one or more filter attributes: [hidden]",
        ),
        ("SELECT * FROM idx.nothing WHERE pk = 'p'", "The table does not have the specified index"),
        *(
            (
                statement,
                "PartiQL statements cannot be executed on tables with multi-attribute HASH keys or "
                "multi-attribute RANGE keys.",
            )
            for statement in (
                "SELECT * FROM idx.multi WHERE h1 = 5",
                "SELECT * FROM idx.multi",
                "SELECT COUNT(*) FROM idx.multi",
            )
        ),
    ],
)
def test_what_an_index_cannot_answer_is_refused(idx, statement, message):
    assert idx.refusal(statement) == message


def test_a_global_index_has_no_consistent_reads(idx):
    assert idx.refusal("SELECT * FROM idx.\"gsi-all\" WHERE g = 'x'", ConsistentRead=True) == (
        "Strongly consistent read is not supported on Global Secondary Indexes"
    )


def test_an_index_is_charged_for_its_own_reads(idx):
    answer = idx.run("SELECT * FROM idx.\"gsi-all\" WHERE g = 'x'", ReturnConsumedCapacity="INDEXES")
    assert answer["ConsumedCapacity"] == {
        "TableName": "idx",
        "CapacityUnits": 0.5,
        "Table": {"CapacityUnits": 0.0},
        "GlobalSecondaryIndexes": {"gsi-all": {"CapacityUnits": 0.5}},
    }


def test_a_batch_reads_no_index(idx):
    needs_key = "Select statements within BatchExecuteStatement must specify the primary key in the where clause."
    answers = idx.batch(
        "SELECT * FROM idx.\"gsi-all\" WHERE pk = 'p' AND sk = '1' AND g = 'x'",
        "SELECT * FROM idx WHERE pk = 'p'",
        "SELECT * FROM idx.multi WHERE h1 = 'a'",
        "SELECT sk FROM idx WHERE pk = 'p' AND sk = '1'",
    )["Responses"]
    assert [answer.get("Error", {}).get("Message", "")[:40] for answer in answers] == [
        needs_key[:40],
        needs_key[:40],
        "PartiQL statements cannot be executed on",
        "",
    ]
    assert answers[3] == {"Item": {"sk": {"S": "1"}}, "TableName": "idx"}
