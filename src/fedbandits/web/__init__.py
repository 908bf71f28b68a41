"""Pages for a browser: runs while they go on, and a laboratory to plan one."""
