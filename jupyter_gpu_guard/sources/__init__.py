"""Read only: each module is one real implementation of one protocol."""
