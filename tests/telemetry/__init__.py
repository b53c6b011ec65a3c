"""What a proxy tells of what it does: traces, the audit line, log records."""
