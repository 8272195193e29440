"""The bundles of this broker: acquired, released, split, merged, acquired again after an expiry."""
