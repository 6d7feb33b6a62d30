"""Requests about backups and point-in-time recovery."""

from __future__ import annotations

from penstock.engine.requests.common import FLAG, INDEX_NAME, NAME, TABLE
from penstock.engine.requests.shapes import Enum, Integer, Shape, String, Timestamp, Unsupported
from penstock.engine.requests.structures import Request, Required, Structure
from penstock.engine.requests.tables import (
    BILLING_MODE,
    GLOBAL_INDEXES,
    LOCAL_INDEXES,
    ON_DEMAND,
    PROVISIONED,
    SSE,
)

_BACKUP_ARN = String(37, 1024)
_NEW_TABLE = String(3, 255, NAME)
_SECONDS = Timestamp()

_OVERRIDES: dict[str, Shape | Required] = {
    "BillingModeOverride": BILLING_MODE,
    "GlobalSecondaryIndexOverride": GLOBAL_INDEXES,
    "LocalSecondaryIndexOverride": LOCAL_INDEXES,
    "ProvisionedThroughputOverride": PROVISIONED,
    "OnDemandThroughputOverride": ON_DEMAND,
    "SSESpecificationOverride": SSE,
    "VectorIndexOverride": Unsupported("VectorIndexOverride"),
}

RESTORE_FROM_BACKUP = Structure(
    "RestoreTableFromBackupInput",
    TargetTableName=Required(_NEW_TABLE),
    BackupArn=Required(_BACKUP_ARN),
    **_OVERRIDES,
)
RESTORE_TO_POINT_IN_TIME = Structure(
    "RestoreTableToPointInTimeInput",
    SourceTableArn=String(1, 1024),
    SourceTableName=INDEX_NAME,
    TargetTableName=Required(_NEW_TABLE),
    UseLatestRestorableTime=FLAG,
    RestoreDateTime=_SECONDS,
    **_OVERRIDES,
)
LIST_BACKUPS = Structure(
    "ListBackupsInput",
    TableName=TABLE,
    Limit=Integer(1, 100),
    TimeRangeLowerBound=_SECONDS,
    TimeRangeUpperBound=_SECONDS,
    ExclusiveStartBackupArn=_BACKUP_ARN,
    BackupType=Enum("USER", "SYSTEM", "AWS_BACKUP", "ALL"),
)
UPDATE_CONTINUOUS_BACKUPS = Structure(
    "UpdateContinuousBackupsInput",
    TableName=Required(TABLE),
    PointInTimeRecoverySpecification=Required(
        Structure(
            "PointInTimeRecoverySpecification",
            PointInTimeRecoveryEnabled=Required(FLAG),
            RecoveryPeriodInDays=Integer(1, 35),
        )
    ),
)

REQUESTS = {
    "CreateBackup": Request(
        Structure("CreateBackupInput", TableName=Required(TABLE), BackupName=Required(String(3, 255, NAME)))
    ),
    "DescribeBackup": Request(Structure("DescribeBackupInput", BackupArn=Required(_BACKUP_ARN))),
    "DeleteBackup": Request(Structure("DeleteBackupInput", BackupArn=Required(_BACKUP_ARN))),
    "ListBackups": Request(LIST_BACKUPS),
    "RestoreTableFromBackup": Request(RESTORE_FROM_BACKUP),
    "RestoreTableToPointInTime": Request(RESTORE_TO_POINT_IN_TIME),
    "DescribeContinuousBackups": Request(Structure("DescribeContinuousBackupsInput", TableName=Required(TABLE))),
    "UpdateContinuousBackups": Request(UPDATE_CONTINUOUS_BACKUPS),
}
