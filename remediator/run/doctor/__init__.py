"""`remediator doctor`: is everything set as it has to be? Each check is one small function in one list."""
