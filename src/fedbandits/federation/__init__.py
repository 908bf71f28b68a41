"""The live federation: a durable log, deadlines and quorums, and what carries the messages."""
