"""State: sessions, transcripts, runs, events. What happened, in what order, and which run is next."""
