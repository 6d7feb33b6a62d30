from django.db import models


class Order(models.Model):
    email = models.EmailField()
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    confirmed_at = models.DateTimeField(null=True)
