"""Requests about exports to S3 and imports from it."""

from __future__ import annotations

from penstock.engine.requests.shapes import (
    NAME,
    TEXT,
    AttributeMap,
    Enum,
    Integer,
    List,
    Map,
    Request,
    Required,
    String,
    Structure,
    Timestamp,
)
from penstock.engine.requests.tables import (
    ATTRIBUTE_DEFINITIONS,
    BILLING_MODE,
    GLOBAL_INDEXES,
    KEY_SCHEMA,
    ON_DEMAND,
    PROVISIONED,
    SSE,
    VECTOR_INDEXES,
)

_TABLE_ARN = String(1, 1024)
_ARN = String(37, 1024)
_TOKEN = String(pattern=r"^[^\$]+$")
# DynamoDB's own pattern, which its message shows, has many ways to read one name. This one takes the same names, in
# steps that grow as the name does.
_BUCKET = String(maximum=255, pattern=r"[a-z0-9A-Z][.\-\w]*[a-z0-9A-Z]")
_BUCKET.pattern = r"^[a-z0-9A-Z]+[\.\-\w]*[a-z0-9A-Z]+$"
_OWNER = String(pattern=r"[0-9]{12}")
_PREFIX = String(maximum=1024)
_SECONDS = Timestamp()

EXPORT = Structure(
    "ExportTableToPointInTimeInput",
    TableArn=Required(_TABLE_ARN),
    ExportTime=_SECONDS,
    ClientToken=_TOKEN,
    S3Bucket=Required(_BUCKET),
    S3BucketOwner=_OWNER,
    S3Prefix=_PREFIX,
    S3SseAlgorithm=Enum("AES256", "KMS"),
    S3SseKmsKeyId=String(1, 2048),
    ExportFormat=Enum("DYNAMODB_JSON", "ION"),
    ExportType=Enum("FULL_EXPORT", "INCREMENTAL_EXPORT"),
    IncrementalExportSpecification=Structure(
        "IncrementalExportSpecification",
        ExportFromTime=_SECONDS,
        ExportToTime=_SECONDS,
        ExportViewType=Enum("NEW_IMAGE", "NEW_AND_OLD_IMAGES"),
    ),
    FilterSpecification=Structure(
        "FilterSpecification",
        FilterExpression=TEXT,
        ProjectionExpression=TEXT,
        KeyConditionExpression=TEXT,
        ExpressionAttributeNames=Map(TEXT),
        ExpressionAttributeValues=AttributeMap(),
    ),
)

IMPORT = Structure(
    "ImportTableInput",
    ClientToken=_TOKEN,
    S3BucketSource=Required(
        Structure("S3BucketSource", S3BucketOwner=_OWNER, S3Bucket=Required(_BUCKET), S3KeyPrefix=_PREFIX)
    ),
    InputFormat=Required(Enum("DYNAMODB_JSON", "ION", "CSV")),
    InputFormatOptions=Structure(
        "InputFormatOptions",
        Csv=Structure(
            "CsvOptions",
            Delimiter=String(1, 1, r"[,;:|\t ]"),
            HeaderList=List(String(1, 65_536, r"[\x20-\x21\x23-\x2B\x2D-\x7E]*"), 1, 255),
        ),
    ),
    InputCompressionType=Enum("ZSTD", "NONE", "GZIP"),
    TableCreationParameters=Required(
        Structure(
            "TableCreationParameters",
            TableName=Required(String(3, 255, NAME)),
            AttributeDefinitions=Required(ATTRIBUTE_DEFINITIONS),
            KeySchema=Required(KEY_SCHEMA),
            BillingMode=BILLING_MODE,
            ProvisionedThroughput=PROVISIONED,
            OnDemandThroughput=ON_DEMAND,
            SSESpecification=SSE,
            GlobalSecondaryIndexes=GLOBAL_INDEXES,
            VectorIndexes=VECTOR_INDEXES,
        )
    ),
)

REQUESTS = {
    "ExportTableToPointInTime": Request(EXPORT),
    "DescribeExport": Request(Structure("DescribeExportInput", ExportArn=Required(_ARN))),
    "ListExports": Request(
        Structure("ListExportsInput", TableArn=_TABLE_ARN, MaxResults=Integer(1, 25), NextToken=TEXT)
    ),
    "ImportTable": Request(IMPORT),
    "DescribeImport": Request(Structure("DescribeImportInput", ImportArn=Required(_ARN))),
    "ListImports": Request(
        Structure(
            "ListImportsInput",
            TableArn=_TABLE_ARN,
            PageSize=Integer(1, 25),
            NextToken=String(112, 1024, r"([0-9a-f]{16})+"),
        )
    ),
}
