"""The rules of Pulsar's first load manager: quotas, ranks, and what it sheds and places by them."""
