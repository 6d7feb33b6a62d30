import json
from decimal import Decimal

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.tasks import enqueue_confirmation


@csrf_exempt  # an API for programs; a form's view keeps the check
@require_POST
def create_order(request: HttpRequest) -> JsonResponse:
    wanted = json.loads(request.body)
    with transaction.atomic():
        order = Order.objects.create(email=wanted["email"], amount=Decimal(wanted["amount"]))
        # After the commit: no worker may look for an order that is not there yet, or never will be.
        transaction.on_commit(lambda: enqueue_confirmation(order.pk))
        if wanted.get("fail"):
            raise ValueError("the payment was refused")
    return JsonResponse({"id": order.pk}, status=201)


def show_order(request: HttpRequest, order_id: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=order_id)
    return JsonResponse({"id": order.pk, "confirmed": order.confirmed_at is not None})
