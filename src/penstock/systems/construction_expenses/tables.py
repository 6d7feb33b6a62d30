"""The 13 tables of S1.1: seven of companies, five of Paddle's payments, and pending payments.

All keys are texts, all tables are on demand, encrypted with the account's key and restorable.
"""

from __future__ import annotations

from typing import Any

from penstock.tables.definitions.definition import Index, Table


def tables() -> tuple[Table, ...]:
    """In the order in which the application's documents list them."""
    return (*_companies(), *_payments(), _table("pending-payments", "userId:S", ttl="expiresAt"))


def _companies() -> tuple[Table, ...]:
    return (
        _table("companies", "companyId:S", Index("appleSubscriptionId-index", "appleSubscriptionId:S")),
        _table(
            "company-users",
            ("companyId:S", "userId:S"),
            Index("userId-index", "userId:S"),
            Index("email-index", "email:S"),
        ),
        _table(
            "company-expenses",
            ("companyId:S", "expenseId:S"),
            Index("invoiceNum-index", "companyId:S", "invoiceNum:S", projection="KEYS_ONLY"),
            Index("contractor-invoiceNum-index", "contractorId:S", "invoiceNum:S"),
        ),
        _table("company-projects", ("companyId:S", "projectId:S")),
        _table("company-contractors", ("companyId:S", "contractorId:S")),
        _table("company-works", ("companyId:S", "workId:S")),
        _table("invitations", ("companyId:S", "invitationId:S"), Index("email-index", "email:S")),
    )


def _payments() -> tuple[Table, ...]:
    return (
        _table(
            "paddle-subscriptions",
            "companyId:S",
            Index("SubscriptionIdIndex", "subscriptionId:S"),
            Index("PaddleCustomerIndex", "paddleCustomerId:S"),
            stream="NEW_AND_OLD_IMAGES",
        ),
        _table(
            "paddle-customers",
            "paddleCustomerId:S",
            Index("EmailIndex", "email:S"),
            Index("CompanyIndex", "companyId:S"),
        ),
        _table("paddle-payments", "paymentId:S", Index("CompanyPaymentsIndex", "companyId:S", "createdAt:S")),
        _table("paddle-webhooks", "webhookId:S", Index("ProcessedAtIndex", "alertName:S", "processedAt:S"), ttl="ttl"),
        _table("paddle-webhook-dlq", "dlqEntryId:S", Index("statusIndex", "status:S", "lastFailedAt:S"), ttl="ttl"),
    )


def _table(name: str, key: str | tuple[str, str], *indexes: Index, **settings: Any) -> Table:
    return Table(name, key, indexes=indexes, pitr=True, sse=True, **settings)
