"""Tools that need agents and sessions: sessions_*, message, memory_*."""
