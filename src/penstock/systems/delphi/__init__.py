"""Delphi: a conversation to embeddings, clusters and topics."""
