"""Where trackers keep their data: folders, sqlite files and database servers, looked at without changing anything."""
