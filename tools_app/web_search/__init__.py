"""Search engines for the web_search tool."""
