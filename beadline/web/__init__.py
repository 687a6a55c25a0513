"""Jobs as their people see them: REST, the dashboard, and the history of jobs that have ended."""
