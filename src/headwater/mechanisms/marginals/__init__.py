"""Wide tables: low-order marginals per bucket of time, and one model of the table fitted to them."""
