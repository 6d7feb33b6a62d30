"""How a bucket keeps its files (S2.12): decided without a bucket, carried out on one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.files import StoreMissing
from penstock.files.bucket import S3
from penstock.files.lifecycle import (
    BucketSettings,
    SetEncryption,
    SetRules,
    SuspendVersioning,
    apply,
    describe,
    inspect,
    plan,
)

FOREIGN = {"ID": "theirs", "Filter": {"Prefix": "logs/"}, "Status": "Enabled", "Expiration": {"Days": 7}}
BARE = BucketSettings((), "", "")


def test_a_bare_bucket_wants_all_of_it() -> None:
    rules, encryption = plan(BARE)
    assert isinstance(rules, SetRules) and isinstance(encryption, SetEncryption)
    assert describe(rules) == (
        "move to Intelligent-Tiering at once: every file",
        "delete after 90 days: every file",
        "delete after 1 day: _temp/, and uploads that were not finished",
    )
    kept, staged = rules.rules
    assert kept["Transitions"] == [{"Days": 0, "StorageClass": "INTELLIGENT_TIERING"}]
    assert kept["Expiration"] == {"Days": 90} and kept["Filter"] == {"Prefix": ""}
    assert staged["Filter"] == {"Prefix": "_temp/"} and staged["Expiration"] == {"Days": 1}


def test_what_is_as_it_should_be_is_left_alone() -> None:
    [rules] = plan(BucketSettings((), "AES256", "Suspended"))
    assert isinstance(rules, SetRules)
    assert plan(BucketSettings(rules.rules, "AES256", "")) == ()
    assert plan(BucketSettings(rules.rules, "aws:kms", "Suspended")) == ()
    assert plan(BucketSettings(rules.rules, "AES256", "Enabled")) == (SuspendVersioning(),)
    assert plan(BucketSettings(rules.rules, "AES256", ""), days=30) != ()


def test_rules_of_others_and_of_other_prefixes_are_kept() -> None:
    [first] = plan(BucketSettings((FOREIGN,), "AES256", ""), "a/b/")
    assert isinstance(first, SetRules)
    [second] = plan(BucketSettings(first.rules, "AES256", ""), "a-b/")
    assert isinstance(second, SetRules)
    assert second.rules[0] == FOREIGN and len(second.rules) == 5
    assert plan(BucketSettings(second.rules, "AES256", ""), "a/b/") == ()


def test_a_real_bucket_is_made_so_and_stays_so(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [FOREIGN]})
    calls = S3(bucket, client=s3)
    changes = plan(inspect(calls))
    assert SuspendVersioning() in changes
    apply(calls, changes)
    assert plan(inspect(calls)) == ()
    found = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert [rule["ID"] for rule in found] == ["theirs", "penstock-files", "penstock-staging"]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"
    encryption = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert encryption["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


def test_a_setting_beside_the_rules_is_kept() -> None:
    [rules] = plan(BucketSettings((), "AES256", "", "varies_by_storage_class"))

    class Noting:
        def put_bucket_lifecycle_configuration(self, **request: Any) -> None:
            self.request = request

    client = Noting()
    apply(S3("bucket", client=client), (rules,))
    assert client.request["TransitionDefaultMinimumObjectSize"] == "varies_by_storage_class"


def test_a_missing_bucket_is_told(s3: Any) -> None:
    with pytest.raises(StoreMissing, match="there is no such bucket"):
        inspect(S3("no-such-bucket-here", client=s3))
