"""The tables of the five systems, as REQUIREMENTS asks for them by number."""

from __future__ import annotations

import pytest

from penstock.engine import Engine
from penstock.registry import system_tables
from penstock.tables.definitions.aws_shapes import create_request
from penstock.tables.definitions.definition import Naming, Table, check_names
from penstock.tables.definitions.sources import load


def tables(system: str, layout: str = "safe") -> dict[str, Table]:
    return {table.name: table for table in load(system, system_tables(), layout=layout).tables}


def keys(table: Table) -> str:
    return " ".join(str(one) for one in table.key.attributes)


def indexes(table: Table) -> dict[str, str]:
    def told(projection: str | tuple[str, ...]) -> str:
        return "" if projection == "ALL" else f" {projection}"

    return {one.name: " ".join(map(str, one.key.attributes)) + told(one.projection) for one in table.indexes}


def test_S0_1_excel_report_jobs() -> None:
    safe, compat = tables("excel-reports")["excel-report-jobs"], tables("excel-reports", "compat")["excel-report-jobs"]
    assert (keys(safe), keys(compat)) == ("jobId:S recordId:S", "recordId:S")
    assert (safe.billing, safe.indexes, safe.ttl) == ("on-demand", (), "ttl")


EXPENSES = {
    "companies": ("companyId:S", {"appleSubscriptionId-index": "appleSubscriptionId:S"}),
    "company-users": ("companyId:S userId:S", {"userId-index": "userId:S", "email-index": "email:S"}),
    "company-expenses": (
        "companyId:S expenseId:S",
        {
            "invoiceNum-index": "companyId:S invoiceNum:S KEYS_ONLY",
            "contractor-invoiceNum-index": "contractorId:S invoiceNum:S",
        },
    ),
    "company-projects": ("companyId:S projectId:S", {}),
    "company-contractors": ("companyId:S contractorId:S", {}),
    "company-works": ("companyId:S workId:S", {}),
    "invitations": ("companyId:S invitationId:S", {"email-index": "email:S"}),
    "paddle-subscriptions": (
        "companyId:S",
        {"SubscriptionIdIndex": "subscriptionId:S", "PaddleCustomerIndex": "paddleCustomerId:S"},
    ),
    "paddle-customers": ("paddleCustomerId:S", {"EmailIndex": "email:S", "CompanyIndex": "companyId:S"}),
    "paddle-payments": ("paymentId:S", {"CompanyPaymentsIndex": "companyId:S createdAt:S"}),
    "paddle-webhooks": ("webhookId:S", {"ProcessedAtIndex": "alertName:S processedAt:S"}),
    "paddle-webhook-dlq": ("dlqEntryId:S", {"statusIndex": "status:S lastFailedAt:S"}),
    "pending-payments": ("userId:S", {}),
}


def test_S1_1_there_are_thirteen_tables() -> None:
    assert list(tables("construction-expenses")) == list(EXPENSES)
    assert len(EXPENSES) == 13


@pytest.mark.parametrize("name", EXPENSES)
def test_S1_1_each_with_its_keys_and_indexes(name: str) -> None:
    table = tables("construction-expenses")[name]
    assert (keys(table), indexes(table)) == EXPENSES[name]
    assert table.billing == "on-demand"


def test_S1_1_ttl_and_streams() -> None:
    found = tables("construction-expenses")
    assert {name: table.ttl for name, table in found.items() if table.ttl} == {
        "paddle-webhooks": "ttl",
        "paddle-webhook-dlq": "ttl",
        "pending-payments": "expiresAt",
    }
    assert {name: table.stream for name, table in found.items() if table.stream} == {
        "paddle-subscriptions": "NEW_AND_OLD_IMAGES"
    }


def test_S1_7_they_are_encrypted_and_restorable() -> None:
    assert {(table.sse, table.pitr) for table in tables("construction-expenses").values()} == {(True, 35)}


def test_S1_8_only_they_have_a_prefix() -> None:
    prefixes = {name: load(name, system_tables()).prefix for name in system_tables()}
    assert prefixes.pop("construction-expenses") == "construction-expenses"
    assert set(prefixes.values()) == {""}


def test_S2_1_jobs_and_S2_5_to_7_their_indexes() -> None:
    compat = tables("security-assistant", "compat")["security-assistant-jobs"]
    assert (keys(compat), compat.ttl) == ("company#client#job:S", "ttl")
    assert indexes(compat) == {
        "StatusDateIndex": "status:S created_at:S",
        "ClientProjectIndex": "client_name:S created_at:S",
        "DateRangeIndex": "date_bucket:S created_at:S",
    }
    safe = tables("security-assistant")["security-assistant-jobs"]
    assert (keys(safe), safe.ttl) == ("company#client#job:S", "ttl")
    assert indexes(safe) == {
        "StatusDateIndex": "status#shard:S created_at:S",
        "ClientProjectIndex": "company#client:S created_at:S",
        "DateRangeIndex": "date_bucket#shard:S created_at:S",
        "JobIdIndex": "job_id:S KEYS_ONLY",
    }


@pytest.mark.parametrize("layout", ["safe", "compat"])
def test_S2_9_events(layout: str) -> None:
    events = tables("security-assistant", layout)["security-assistant-events"]
    assert (keys(events), events.ttl, events.indexes) == ("job_id:S timestamp#event_id:S", "ttl", ())


DELPHI = {
    "Delphi_UMAPConversationConfig": ("job_id:S conversation_id:S", "conversation_id:S job_id:S"),
    "Delphi_CommentEmbeddings": ("job_id:S comment_id:N", "conversation_id:S comment_id:N KEYS_ONLY"),
    "Delphi_CommentHierarchicalClusterAssignments": ("job_id:S comment_id:N", "conversation_id:S comment_id:N"),
    "Delphi_CommentClustersStructureKeywords": ("job_id:S cluster_key:S", "conversation_id:S cluster_key:S"),
    "Delphi_UMAPGraph": ("job_id:S edge_id:S", "conversation_id:S edge_id:S"),
    "Delphi_CommentClustersFeatures": ("job_id:S cluster_key:S", "conversation_id:S cluster_key:S"),
    "Delphi_CommentClustersLLMTopicNames": ("job_id:S topic_key:S", "conversation_id:S topic_key:S"),
}


@pytest.mark.parametrize("name", DELPHI)
def test_S3_1_to_5_seven_tables_of_results(name: str) -> None:
    table = tables("delphi")[name]
    assert (keys(table), indexes(table)) == (DELPHI[name][0], {"ConversationIdIndex": DELPHI[name][1]})


def test_S3_13_the_queue() -> None:
    found = tables("delphi")
    assert list(found) == [*DELPHI, "Delphi_JobQueue"]
    assert keys(found["Delphi_JobQueue"]) == "job_id:S"
    theirs = {
        "StatusCreatedIndex": "status:S created_at:S",
        "ConversationIndex": "conversation_id:S created_at:S",
        "JobTypeIndex": "job_type:S priority:N",
        "WorkerStatusIndex": "worker_id:S status:S",
    }
    assert indexes(tables("delphi", "compat")["Delphi_JobQueue"]) == theirs
    ours = {"ClaimIndex": "claim#shard:S claim_order:S KEYS_ONLY"}
    assert indexes(found["Delphi_JobQueue"]) == theirs | ours


def test_S4_3_users_and_records() -> None:
    found = tables("account-records", "compat")
    assert {name: keys(table) for name, table in found.items()} == {
        "Users": "pk:S sk:S",
        "Records": "AccountId:S RunTime:S",
    }
    assert indexes(found["Records"]) == {"Processed": "Processed:N"}


def test_S4_6_the_pending_index_is_sparse_and_sharded() -> None:
    assert indexes(tables("account-records")["Records"]) == {
        "Processed": "Processed#shard:S RunTime:S",
        "Pending": "Pending#shard:S RunTime:S",
    }


@pytest.mark.parametrize("layout", ["safe", "compat"])
@pytest.mark.parametrize("system", system_tables())
def test_every_table_can_be_made(system: str, layout: str) -> None:
    found = load(system, system_tables(), layout=layout)
    naming = Naming(found.prefix, "staging")
    check_names(found.tables, naming)
    engine = Engine()
    for table in found.tables:
        engine.execute("CreateTable", create_request(table, naming.full_name(table.name)))
    assert len(engine.execute("ListTables", {})["TableNames"]) == len(found.tables)
    engine.close()


@pytest.mark.parametrize("system", ["excel-reports", "security-assistant", "delphi", "account-records"])
def test_a_layout_that_there_is_not_is_refused(system: str) -> None:
    with pytest.raises(ValueError, match="There is no layout 'wild': there are safe and compat"):
        load(system, system_tables(), layout="wild")
