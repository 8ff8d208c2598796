"""Group digits as browsers do on the same page: 1,234,567. Django's own format for Chinese has no separator."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
