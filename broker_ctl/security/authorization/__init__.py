"""Authorization: which role may perform which operation on which resource."""
