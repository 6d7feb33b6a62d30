"""The receiver of Paddle's webhooks over HTTP.

POST /webhooks/paddle    200 when it is recorded and enqueued; Paddle sends what is not answered with 200 again
GET  /health

An unsigned, late or altered webhook is 401, a signed one that is no webhook 400, an id that came with another payload
409, a long body 413, and a database that is away 503.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Final

from penstock.extras import extra
from penstock.systems.construction_expenses.webhooks.receiver import BODY_BYTES, Receiver
from penstock.systems.construction_expenses.webhooks.webhook import BadWebhook, WebhookDiffers
from penstock.webhooks import BadSignature

with extra("web", "The receiver of webhooks"):
    from fastapi import Depends, FastAPI, Request
    from pydantic import BaseModel, Field
    from starlette.concurrency import run_in_threadpool

    from penstock.web.api.application import ApiRouter, make_api, refusals

PATH: Final = "/webhooks/paddle"
_STATUSES: Final = {
    BadSignature: (401, "Send it as Paddle does: signed with this receiver's key, and at once."),
    BadWebhook: (400, "Nothing was recorded. See the message."),
    WebhookDiffers: (409, "Give another event another id."),
}


class Acknowledged(BaseModel):
    """It is recorded, and will be handled once."""

    webhook_id: str
    duplicate: bool = Field(description="Whether it had come before.")


def receiver_api(receiver: Receiver, *, hosts: Iterable[str] = (), concurrency: int = 1) -> FastAPI:
    """The ASGI application. It also handles webhooks, `concurrency` at once; 0 leaves that to other workers."""

    def health() -> Mapping[str, Any]:
        table = receiver.books.webhooks.name
        receiver.books.db.execute("DescribeTable", {"TableName": table})
        return {"table": table, "billing": bool(receiver.keys.secrets), "classic": bool(receiver.keys.public_keys)}

    return make_api(
        "Construction expenses: webhooks",
        router,
        state=receiver,
        description="Receives the webhooks of Paddle Billing and Paddle Classic.",
        health=health,
        statuses=_STATUSES,
        hosts=hosts,
        body_bytes={PATH: BODY_BYTES},
        lifespan=lambda app: _worker_beside(receiver, concurrency),
    )


async def _receiver(request: Request) -> Receiver:
    receiver: Receiver = request.app.state.service
    return receiver


Service = Annotated[Receiver, Depends(_receiver)]
router = ApiRouter()


@router.post(
    PATH,
    summary="Receive a webhook",
    responses=refusals(
        {
            400: "It is signed, and no webhook",
            401: "It is not signed, altered or late",
            409: "Its id came with another payload before",
            413: "It is too long",
            503: "The database is away",
        }
    ),
)
async def receive(request: Request, receiver: Service) -> Acknowledged:
    body = await request.body()
    signature = request.headers.get("paddle-signature")
    taken = await run_in_threadpool(receiver.accept, body, request.headers.get("content-type", ""), signature)
    return Acknowledged(webhook_id=taken.webhook_id, duplicate=not taken.is_new)


def _worker_beside(receiver: Receiver, concurrency: int) -> AbstractAsyncContextManager[None]:
    """A worker beside the server, in threads of its own, for as long as the server runs."""

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        if not concurrency:
            yield
            return
        worker = await run_in_threadpool(receiver.worker, concurrency=concurrency)
        thread = threading.Thread(target=worker.run, name="penstock-webhook-worker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            worker.stop("the server stops")
            await run_in_threadpool(thread.join)

    return lifespan()
