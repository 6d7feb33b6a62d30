"""Sound inputs of every kind that `trust.fuzz` makes unsound ones of, and the words that they are made of."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

import orjson

from penstock.client.reads.pages import write_token
from penstock.engine.registry import OPERATIONS

_KEY = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
_NAMED = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "g")]
_INDEX = {
    "IndexName": "by_g",
    "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}
TABLES: list[dict[str, Any]] = [
    {
        "TableName": "fuzzed",
        "KeySchema": _KEY,
        "AttributeDefinitions": _NAMED,
        "GlobalSecondaryIndexes": [_INDEX],
        "BillingMode": "PAY_PER_REQUEST",
    }
]
_ONE = {"pk": {"S": "a"}, "sk": {"S": "a"}}
ITEMS: list[dict[str, Any]] = [
    {**_ONE, "n": {"N": "1"}, "l": {"L": [{"N": "1"}, {"M": {"x": {"S": "y"}}}]}, "s": {"SS": ["a", "b"]}},
    {**_ONE, "sk": {"S": "b"}, "g": {"S": "g"}, "m": {"M": {"x": {"L": []}}}, "b": {"B": "AQID"}, "z": {"NULL": True}},
]
VALUES = {":a": {"S": "a"}, ":n": {"N": "1"}, ":l": {"L": [{"N": "1"}]}, ":s": {"SS": ["a"]}}
REQUESTS: dict[str, dict[str, Any]] = {
    "PutItem": {"Item": _ONE},
    "Scan": {},
    "Query": {},
    "UpdateItem": {"Key": _ONE},
    "GetItem": {"Key": _ONE},
}

CONDITIONS = (
    b"n = :n AND s <> :s AND l = :l AND pk = :a",
    b"(NOT attribute_exists(l[0].x) OR contains(s, :a)) AND n BETWEEN :n AND :n AND l <> :l AND s = :s",
    b"n IN (:n, :a, :l) OR size(l) >= :n OR begins_with(pk, :a) OR attribute_type(m.x, :a) OR s = :s",
)
KEYS = (b"pk = :a AND sk > :a", b"pk = :a AND begins_with(sk, :a)", b"pk = :a AND sk BETWEEN :a AND :a")
UPDATES = (
    b"SET n = n + :n, l[0] = :a, m.x = list_append(l, :l) REMOVE z, l[1].x ADD s :s DELETE s :s",
    b"SET a = if_not_exists(b, :n) - :n, q = :l, r = :s, t = :a",
)
PROJECTIONS = (b"pk, l[0], m.x, l[1].x", b"a,b,c,d.e.f[0][1]")
STATEMENTS = (
    b'SELECT pk, m.x, l[0] FROM "fuzzed"."by_g" WHERE g = \'g\' AND n IN [1, 2.5e3] ORDER BY pk DESC',
    b"INSERT INTO fuzzed VALUE {'pk': 'p', 'sk': 's', 'l': [1, {'x': <<'a', 'b'>>}], 'n': -1, 'z': null, 't': true}",
    b"UPDATE fuzzed SET n = n + 1 SET l[0] = list_append(l, [1]) REMOVE z WHERE pk = 'a' AND sk = 'a' "
    b"RETURNING ALL NEW *",
    b"DELETE FROM fuzzed WHERE pk = ? AND sk = ?\x1fa\x1fb",
    b"EXISTS(SELECT * FROM fuzzed WHERE pk = 'a' AND attribute_type(n, 'N')) -- end\n",
)
BODIES = tuple(
    name.encode() + b"\n" + orjson.dumps({"TableName": "fuzzed", **REQUESTS.get(name, {}), "Key": _ONE, "Limit": 1})
    for name in sorted(OPERATIONS)
)
_HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\nX-Amz-Date: 20150830T123600Z\r\n"
_SIGNED = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20150830/us-east-1/dynamodb/aws4_request, "
    b"SignedHeaders=host;x-amz-date;x-amz-target, Signature=00\r\nContent-Type: application/x-amz-json-1.0\r\n"
)
MESSAGES = (
    _HEAD + _SIGNED + b"Content-Length: 2\r\n\r\n{}",
    _HEAD + _SIGNED + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n",
    _HEAD
    + _SIGNED
    + b"Content-Encoding: deflate\r\nAccept-Encoding: gzip;q=0.5, *\r\nContent-Length: 10\r\n\r\n"
    + zlib.compress(b"{}"),
    b"GET /?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a&X-Amz-Date=b&X-Amz-Signature=c HTTP/1.1\r\n"
    b"Host: a\r\n\r\n",
)
ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nx-amz-crc32: 1\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
)
TYPED_ITEMS = (orjson.dumps({**ITEMS[0], **ITEMS[1]}, option=orjson.OPT_INDENT_2),)
_SHAPE = {**TABLES[0], "TimeToLiveSpecification": {"AttributeName": "t", "Enabled": True}}
TEMPLATES = (orjson.dumps({"Resources": {"A": {"Type": "AWS::DynamoDB::Table", "Properties": _SHAPE}}}),)
EXPORTS = (orjson.dumps({"Table": {**TABLES[0], "TableStatus": "ACTIVE"}}), orjson.dumps(TABLES[0]))
STACKS = (
    b"""Parameters:
  Stage: {Type: String, Default: dev}
Mappings:
  Units: {dev: {read: 5}}
Conditions:
  Prod: !Equals [!Ref Stage, prod]
Resources:
  Jobs:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      TableName: !Sub "${Stage}-jobs"
      AttributeDefinitions:
        - {AttributeName: pk, AttributeType: S}
        - &g {AttributeName: g, AttributeType: N}
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
      BillingMode: !If [Prod, PAY_PER_REQUEST, PROVISIONED]
      ProvisionedThroughput: {ReadCapacityUnits: !FindInMap [Units, dev, read], WriteCapacityUnits: 5}
      GlobalSecondaryIndexes:
        - IndexName: by-g
          KeySchema: [{AttributeName: g, KeyType: HASH}]
          Projection: {ProjectionType: INCLUDE, NonKeyAttributes: !Split [",", !Join [",", [a, b]]]}
          ProvisionedThroughput: {ReadCapacityUnits: 1, WriteCapacityUnits: 1}
      SSESpecification: {SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: alias/x}
      ResourcePolicy:
        PolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Deny, Principal: "*", Action: "*", Resource: "*"}]}
      Tags: [{Key: Team, Value: !Select [0, [blue]]}]
""",
)
POLICY = {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}}
_ATTRIBUTES = [{"name": name, "type": "S"} for name in ("pk", "sk", "g")]
_STATE = {
    "name": "jobs",
    "billing_mode": "PROVISIONED",
    "read_capacity": 5,
    "write_capacity": 5,
    "hash_key": "pk",
    "range_key": "sk",
    "attribute": _ATTRIBUTES,
    "global_secondary_index": [
        {
            "name": "by-g",
            "hash_key": "g",
            "projection_type": "INCLUDE",
            "non_key_attributes": ["b"],
            "read_capacity": 1,
        },
    ],
    "local_secondary_index": [{"name": "loc", "range_key": "g", "projection_type": "KEYS_ONLY"}],
    "ttl": [{"attribute_name": "t", "enabled": True}],
    "point_in_time_recovery": [{"enabled": True, "recovery_period_in_days": 7}],
    "server_side_encryption": [{"enabled": True, "kms_key_arn": ""}],
    "stream_enabled": True,
    "stream_view_type": "NEW_IMAGE",
    "replica": [{"region_name": "eu-west-1"}],
    "tags": {"a": "b"},
}
_RESOURCE = {"address": "t.a", "mode": "managed", "type": "aws_dynamodb_table", "name": "a", "values": _STATE}
_ROOT = {"root_module": {"resources": [_RESOURCE], "child_modules": [{"resources": [_RESOURCE]}]}}
STATES = (
    orjson.dumps({"format_version": "1.0", "values": _ROOT}),
    orjson.dumps({"format_version": "1.2", "planned_values": _ROOT}),
    orjson.dumps([{"Table": TABLES[0]}, {"Table": {**TABLES[0], "TableName": "other"}}]),
    *TEMPLATES,
)
DEFINITIONS = tuple(
    orjson.dumps({"name": "jobs", **members})
    for members in (
        {
            "key": ["pk:S", "sk:N"],
            "indexes": [{"Index": {"name": "loc", "hash": "pk:S", "range": "g:N", "local": True}}],
        },
        {
            "key": "pk:S",
            "indexes": [{"Index": {"name": "by-g", "hash": ["g:S", "h:N"], "projection": ["a"]}}],
            "ttl": "t",
        },
        {"key": "pk:S", "billing": {"Throughput": {"read": 5, "write": 6}}, "stream": "NEW_IMAGE", "pitr": 7},
        {
            "key": "pk:S",
            "on_demand_max": {"Maximum": {"read": 5}},
            "warm": {"Throughput": {"read": 13000, "write": 5000}},
        },
        {"key": "pk:S", "tags": {"a": "b"}, "sse": "alias/x", "ignore": ["billing"], "allow": {"no-pitr": "a cache"}},
        {
            "key": "pk:S",
            "resource_policy": POLICY,
            "table_class": "STANDARD",
            "deletion_protection": True,
        },
        {"key": "pk:S", "vector_indexes": [{"VectorIndex": {"name": "near", "attribute": "v", "dimensions": 4}}]},
    )
)
MIGRATIONS = (
    orjson.dumps({"file": "0001_split", "table": "people", "version": "schema", "guard": "rev"}),
    orjson.dumps({"file": "0002_b", "table": "people", "where": None, "down": 1, "down_where": "x"}),
)
ITEM_TABLES = (
    b'id:S,n:N,tags:L,b:B,s:SS,*\na,1,"[{""S"": ""x""}]",AQID,"[""p""]","{""m"": {""M"": {}}}"\n',
    b'id,n,plain\r\na,1,x\r\n"a\nb",-2e3,\r\n',
)
ITEM_LINES = (
    b'{"id": "a", "n": 1.50, "l": [1, {"x": null}], "t": true}\n\n[{"id": "b"}, {"id": "c"}]\n',
    b"\n".join(orjson.dumps(item) for item in ITEMS) + b'\n{"Item": {"id": {"S": "a"}}}\n',
)
COMMENTS = (b'comment-id,comment-body,author-id,agrees\n1,"a, ""b""",x,3\n2,c,y,0\n',)
CRONS = (b"*/5 0-6,12 1,15 jan-mar mon", b"0 0 29 2 *", b"@daily")
URLS = (b"http://localhost:8000?region=x", b"aws://eu-west-2", b"jobs.db", b"https://[::1]:1", b":memory:")
TOKENS = (write_token("q", _ONE, 3).encode(),)


def _document() -> bytes:
    words = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:  # stored: what is changed in it is the XML
        text = f"<w:document {words}><w:p><w:t>Standard: EN 1</w:t></w:p><w:p><w:t>It shall be</w:t></w:p></w:document>"
        archive.writestr("word/document.xml", text)
    return packed.getvalue()


def _drawing() -> bytes:
    drawn = b"BT /F 12 Tf 10 20 Td (Door) Tj ET q 1 0 0 1 0 0 cm /X Do Q BI /W 1 /H 1 ID x EI [(a) -1 (b)] TJ"
    form = b"<< /Type /XObject /Subtype /Form /BBox [0 0 1 1] /Length 20 >>\nstream\nBT /F 1 Tf (a) Tj ET\nendstream"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources "
        b"<< /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n" % len(drawn) + drawn + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        form,
    )
    out = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%b\nendobj\n" % pair for pair in enumerate(objects, start=1))
    return out + b"trailer << /Size 7 /Root 1 0 R >>\nstartxref\n0\n%%EOF"  # without a table: pypdf looks for objects


DOCUMENTS = (_document(),)
DRAWINGS = (_drawing(),)


def _words(text: str) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in text.split())


_ODD = (b"\x00", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"9" * 400, b"1E400000000", b"-0", b" " * 50, b"\n")
EXPRESSION_WORDS = (
    *_words(
        "( ) , . [ ] [0] [99999999] = <> < <= > >= + - # : #a :a :n :l :s NOT AND OR IN BETWEEN SET REMOVE ADD DELETE"
    ),
    *_words(
        "size( contains( begins_with( attribute_exists( attribute_type( list_append( if_not_exists( pk sk n l m.x s"
    ),
    *_ODD,
)
PARTIQL_WORDS = (
    *_words(
        "SELECT FROM WHERE AND OR NOT IN BETWEEN INSERT INTO VALUE UPDATE SET REMOVE DELETE EXISTS( ORDER BY RETURNING"
    ),
    *_words("' '' \" ( ) [ ] { } << >> , . : ? * + - = <> -- /* */ || null missing true 1 .5 1e9 fuzzed pk n l[0] m.x"),
    *_ODD,
)
JSON_WORDS = (
    *_words('{ } [ ] , : " \\ \\ud800 \\u0000 null true NaN 1e999 -1 0.1 {"S": {"N": {"L":[ {"M":{ "Key"'),
    *_ODD,
)
DEFINITION_WORDS = (
    *_words(
        'Index Maximum Throughput VectorIndex name hash range local projection key S N B :S "pk:S" Ref Fn::Sub Type'
    ),
    *_words(
        "!Ref !Sub !If !GetAtt !FindInMap !Join !Select !Split !Equals &a *a <<: - | > ${Stage} ${AWS::Region} 0x1"
    ),
    *_words("read write TableName KeySchema AttributeName values resources attribute hash_key true false null -1 0.5"),
    *JSON_WORDS,
)
CSV_WORDS = (
    *_words('" "" , : :S :N :L :SS :B :BOOL :NULL * id n 1e400 [] {} {"S":"a"}'),
    b"\r",
    b"\t",
    b"\xef\xbb\xbf",
    *_ODD,
)
ION_WORDS = (
    *_words("$ion_1_0 Item { } [ ] ( {{ }} : :: , \" ' ''' // /* */ \\ \\u \\ud800 \\x4 $dynamodb_SS:: $dynamodb_NS::"),
    *_words("$dynamodb_BS:: $ion_symbol_table:: $7 null null.int true nan +inf 0x 0b1 1_0 6d2 1e400000000 2026-11-18T"),
    *(b"[" * 50, b"{a:" * 50),
    *_ODD,
)
HTTP_WORDS = (
    *_words("HTTP/1.1 HTTP/1.0 POST GET CONNECT : ; = , Host: Content-Length: Transfer-Encoding: chunked gzip deflate"),
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"0\r\n\r\n",
        b"Authorization: ",
        b"Expect: 100-continue\r\n",
        b"Upgrade: x\r\n",
    ),
    *_ODD,
)
PDF_WORDS = (
    *_words("<< >> [ ] ( ) < > / /Length /Filter /FlateDecode /Kids /Count obj endobj stream R Tj TJ Do q BI"),
    *_ODD,
)
CRON_WORDS = (*_words("* / , - 0 59 60 jan sun @daily @hourly L W # ?"), *_ODD)
