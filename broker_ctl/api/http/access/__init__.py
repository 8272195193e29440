"""Which requests are served: by whom, from which web page, and what is logged of them."""
