"""Numbers as browsers write them on the same page, 1,234,567: Django's own have no sign between the digits."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
