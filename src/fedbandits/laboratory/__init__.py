"""Laboratory: what a design will cost, worked out again whenever a setting changes."""
