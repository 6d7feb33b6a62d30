"""Typed payloads, from `enqueue` to `task.result`: by annotations of the task, exact, as plain JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from worker_worlds import work

import penstock
from penstock.jobs.model.job import NewJob
from penstock.jobs.worker.outcomes import Counts

if TYPE_CHECKING:
    from fractions import Fraction

ORDER_ID = UUID("00000000-0000-0000-0000-00000000002a")


@dataclass
class Item:
    sku: str
    price: Decimal


@dataclass
class Order:
    id: UUID
    items: list[Item]
    placed_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    tags: set[str] = field(default_factory=set)


def order(*prices: str) -> Order:
    return Order(ORDER_ID, [Item("x", Decimal(price)) for price in prices], tags={"b", "a"})


@pytest.fixture
def app() -> Iterator[penstock.App]:
    app = penstock.App(":memory:")
    yield app
    app.close()


def test_arguments_and_results_come_back_as_they_were(app: penstock.App) -> None:
    seen: list[Any] = []

    @app.task()
    def ship(order: Order, after: timedelta = timedelta(0), **more: Decimal) -> tuple[Order, Decimal]:
        seen.append((order, after, more))
        return order, sum((item.price for item in order.items), Decimal(0))

    @app.task()
    async def ship_async(ctx: penstock.AsyncJobContext, order: Order) -> Order:
        return order

    given = order("1.10", "2.20")
    job = ship.enqueue(order=given, after=timedelta(hours=1), fee=Decimal("0.5"))
    other = ship_async.enqueue(given)
    work(app)
    assert seen == [(given, timedelta(hours=1), {"fee": Decimal("0.5")})]
    assert ship.result(job) == (given, Decimal("3.30"))
    assert ship.result(job.id) == app.result(job.id)
    assert ship_async.result(other, timeout_seconds=1) == given


def test_the_json_is_plain(app: penstock.App) -> None:
    @app.task()
    def ship(order: Order) -> None: ...

    job = ship.enqueue(order("1.10"))
    assert app.store.load(job, job.args) == {
        "order": {
            "id": str(ORDER_ID),
            "items": [{"sku": "x", "price": "1.10"}],
            "placed_at": "2026-01-01T00:00:00+00:00",
            "tags": ["a", "b"],
        }
    }


def test_a_refusal_at_enqueue_names_the_path_and_nothing_is_made(app: penstock.App) -> None:
    @app.task()
    def ship(order: Order) -> None: ...

    wrong = order("1", "2", "3")
    wrong.items[2].price = 3.0  # type: ignore[assignment]
    with pytest.raises(penstock.NotJson, match=r"order\.items\[2\]\.price is a float, where a Decimal"):
        ship.enqueue(wrong)
    with pytest.raises(penstock.NotJson, match=r"args\.order is a dict, where a Order is annotated"):
        ship.enqueue_many([{"order": order("1")}, {"order": {}}])
    assert app.store.find().jobs == ()


def test_what_is_not_annotated_is_refused_and_the_error_says_to_annotate(app: penstock.App) -> None:
    @app.task()
    def ship(order, when=None): ...  # type: ignore[no-untyped-def]

    with pytest.raises(penstock.NotJson, match="annotate the parameter or what the function returns as Order"):
        ship.enqueue(order("1"))
    with pytest.raises(penstock.NotJson, match="annotate the parameter or what the function returns as datetime"):
        ship.enqueue(1, when=datetime.now(UTC))


def test_an_annotation_that_only_checkers_can_read_is_named(app: penstock.App) -> None:
    @app.task()
    def halve(part: Fraction) -> None: ...

    halve.enqueue(part=1)  # type: ignore[arg-type]
    with pytest.raises(penstock.BadJob, match="annotated as 'Fraction', which cannot be resolved"):
        halve.enqueue(part=object())  # type: ignore[arg-type]


def test_a_class_below_its_task_is_found(app: penstock.App) -> None:
    @app.task()
    def later(value: Below) -> Below:
        return value

    job = later.enqueue(Below(Decimal(1)))
    work(app)
    assert later.result(job) == Below(Decimal(1))


@dataclass
class Below:
    price: Decimal


def test_a_job_of_an_older_version_takes_defaults_and_one_of_another_fails_without_a_retry(app: penstock.App) -> None:
    @app.task(retries=3)
    def ship(order: Order) -> int:
        return len(order.tags)

    older = {"id": str(ORDER_ID), "items": []}
    first = app.enqueue_new(NewJob("ship", {"order": older}))
    newer = app.enqueue_new(NewJob("ship", {"order": {**older, "x": 1}}))
    counts: Counts = work(app)
    assert (counts.completed, counts.failed, counts.retried) == (1, 1, 0)
    assert ship.result(first) == 0
    error = app.get(newer.id).error
    assert error is not None
    assert error.kind == "BadArguments"
    assert "args.order has the field 'x', which Order does not have" in error.message


def test_a_result_of_another_type_fails_the_job(app: penstock.App) -> None:
    @app.task(retries=3)
    def ship() -> Order:
        return {"id": 1}  # type: ignore[return-value]

    job = ship.enqueue()
    assert work(app).failed == 1
    with pytest.raises(penstock.JobFailed, match="result is a dict, where a Order is annotated"):
        ship.result(job)


def test_a_result_is_asked_of_its_own_task(app: penstock.App) -> None:
    @app.task()
    def one() -> int:
        return 1

    @app.task()
    def two() -> int:
        return 2

    job = one.enqueue()
    work(app)
    with pytest.raises(penstock.BadJob, match=r"is a job of one, not of two: one\.result"):
        two.result(job)


def test_the_same_set_is_the_same_argument(app: penstock.App) -> None:
    @app.task()
    def tag(names: set[str]) -> None: ...

    names = [f"name{number}" for number in range(50)]
    first = tag.options(idempotency_key="k").enqueue(set(names))
    assert tag.options(idempotency_key="k").enqueue({*names[25:], *names[:25]}).id == first.id


def test_a_step_is_typed_by_its_function_or_by_type(app: penstock.App) -> None:
    seen: list[Any] = []
    attempts: list[int] = []

    def load() -> Order:
        return order("1.10")

    @app.task(retries=penstock.RetryPolicy(1, base_seconds=0.0))
    def ship(ctx: penstock.JobContext) -> None:
        seen.append(ctx.step("order", load))
        seen.append(ctx.step("price", lambda: Decimal("1.5"), type=Decimal))
        seen.append(ctx.step("pair", lambda: (1, 2)))
        ctx.checkpoint("at", datetime(2026, 1, 1), type=datetime)
        seen.append(ctx.resume("at", type=datetime))
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise OSError

    @app.task()
    async def ship_async(ctx: penstock.AsyncJobContext) -> Order:
        async def load_async() -> Order:
            return order("1")

        await ctx.checkpoint("day", Decimal(1), type=Decimal)
        assert await ctx.resume("day", type=Decimal) == Decimal(1)
        return await ctx.step("order", load_async, type=Order)

    ship.enqueue()
    last = ship_async.enqueue()
    work(app)
    once = [order("1.10"), Decimal("1.5"), [1, 2], datetime(2026, 1, 1)]
    assert attempts == [1, 2]
    assert seen == [*once, *once]
    assert ship_async.result(last) == order("1")


def test_a_schedule_gives_typed_arguments(app: penstock.App) -> None:
    @app.task(cron="0 6 * * *", cron_args={"keep": timedelta(days=3)})
    def clean(keep: timedelta) -> None: ...

    assert app.schedules.declared["clean"].arguments == {"keep": "P3DT0H0M0S"}, "as JSON: it is stored"
    with pytest.raises(penstock.BadJob, match=r"keep is"):

        @app.task(cron="0 6 * * *", cron_args={"keep": "three"})
        def wipe(keep: timedelta) -> None: ...

    made = app.schedules.create("hourly", clean, "0 * * * *", args={"keep": timedelta(hours=1)})
    assert made.args == {"keep": "P0DT1H0M0S"}
    job = app.schedules.run("hourly")
    assert app.store.load(job, job.args) == {"keep": "P0DT1H0M0S"}


def test_results_of_children_have_the_types_of_their_tasks(app: penstock.App) -> None:
    @app.task()
    def price(cents: int) -> Decimal:
        if not cents:
            raise ValueError("free")
        return Decimal(cents) / 100

    @app.task()
    def total(ctx: penstock.JobContext) -> Decimal:
        children = [ctx.enqueue(price, cents=110), ctx.enqueue(price.options(priority=7), cents=220)]
        gathered, iterated = ctx.gather(children), list(ctx.results_of(children))
        assert gathered == iterated
        return gathered[0] + iterated[1]

    @app.task()
    async def total_async(ctx: penstock.AsyncJobContext) -> Decimal:
        made = await ctx.enqueue(price, cents=110)
        free = ctx.enqueue(price, cents=0)
        *prices, failed = await ctx.gather([made, ctx.enqueue(price, cents=220), free], return_exceptions=True)
        assert isinstance(failed, penstock.JobFailed)
        return sum(prices, Decimal(0))

    jobs = [total.enqueue(), total_async.enqueue()]
    work(app)
    assert [app.result(job.id) for job in jobs] == [Decimal("3.30"), Decimal("3.30")]


def test_options_keep_the_types(app: penstock.App) -> None:
    @app.task()
    def ship(order: Order) -> Order:
        return order

    job = ship.options(priority=9).enqueue(order("1"))
    work(app)
    assert job.priority == 9
    assert ship.options(tenant="a").result(job) == order("1")
