"""The shop's jobs: found by their module's name."""

from django.utils import timezone

import penstock

from project.jobs import app, with_connections
from shop.models import Order


@app.task(retries=5)
@with_connections
def confirm_order(ctx: penstock.JobContext, order_id: int) -> str:
    order = Order.objects.get(pk=order_id)  # the job has its id, not the object: what it reads is current
    ctx.step("mail", lambda: send_mail(order.email, f"Thank you for {order.amount}"))
    Order.objects.filter(pk=order_id).update(confirmed_at=timezone.now())
    return order.email


def enqueue_confirmation(order_id: int) -> penstock.Job:
    """Once for each order, however often it is called."""
    return confirm_order.options(idempotency_key=f"confirm {order_id}").enqueue(order_id=order_id)


@app.task(cron="*/5 * * * *")
@with_connections
def enqueue_missed() -> int:
    """A process that dies between its commit and `on_commit` has enqueued nothing: this finds such orders."""
    missed = Order.objects.filter(confirmed_at=None).values_list("pk", flat=True)[:1_000]
    return sum(enqueue_confirmation(order_id).is_new for order_id in missed)


def send_mail(address: str, text: str) -> str:
    print(f"to {address}: {text}", flush=True)  # your mail server
    return address
