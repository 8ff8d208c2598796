"""The methods clients can call, one module per prefix. Loading this package registers them."""
