"""What `make fresh` plays: Debian roots that are thrown away, machines made of them, and checks in those."""
