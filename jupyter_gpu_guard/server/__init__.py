"""The Jupyter Server extension: configuration, REST, events, the wire."""
